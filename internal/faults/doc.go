// Package faults lets a test build be hurt from outside: with the build tag faults, a running node reads from the file that
// CANTUS_FAULTS names how its clock and its disk misbehave.
//
//	clock 3h         the clock is ahead by so much; it may be negative
//	write eio        writes fail; enospc: with "no space left on device"
//	sync eio         syncs fail; enospc as above
//	sync slow 80ms   syncs take longer by so much
//	sync hang        syncs do not return as long as the line stands
//	stop seal 3      the process stops when it comes by the Point seal for the fourth time, and says so in a file: the name with .stopped
//
// One fault a line; an empty or missing file is no fault. It promises that a build without the tag holds none of it: Now is
// time.Now there, and nothing else exists.
package faults
