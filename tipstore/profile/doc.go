// Package profile measures what reading from the tip costs: a part of the topics by the index, by a linear pass and as the
// cursor chooses, and the pure merge with each queue of heapbench.
//
// It promises that what it measures is the tip that serves (a topic table and stores in this process, their rings turned
// over three times before the first read), that all rows of one run are over the same messages, that every pass is checked for
// the count of messages it must return, and that costs are processor time, which other processes do not add to. It does not
// copy messages to a socket, and it starts no node.
package profile
