// Package history is the record of one run against a cluster: every operation that the harness performed, everything it
// saw, and every fault that it injected.
//
// A history is a file of JSON lines: a Header, then events, then an End if the run came to its end. The file is the whole
// input of package check, so a run can be judged again offline, and read by people with the usual line tools.
//
// It promises:
//   - Many goroutines may share one Writer. What one goroutine writes is in the file in the order of its calls, so the
//     events of one reader or one process are in their true order. Events of different goroutines are in the order of
//     their writing, not of their times.
//   - Writing streams: memory does not grow with the run. So does reading, which can be repeated.
//   - A file that was cut short is readable up to the cut, and is not Complete.
//
// It does not judge, does not talk to a cluster, and knows no workload.
package history
