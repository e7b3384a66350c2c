// Package check judges a history: which promises of the cluster it shows to be broken, and the few operations that prove
// it.
//
// All reads the history twice, and a third time if there is something to show. The first pass builds a ledger of what was
// published and of what stands at each seq, as far as anybody saw it; the second follows each reader, each point read and
// the clock. So a fault is told by what contradicts what, and no checker trusts the cluster's own account.
//
// It promises:
//   - A violation is a contradiction inside the history, provided that the history is true. Nothing is concluded from what
//     the history does not hold: a reader is judged up to its position, an acked message that no reader passed is counted
//     and not called lost, an operation with an unknown outcome may have happened or not.
//   - Memory is some 160 bytes for a message, one bit for a delivery, and nothing for the rest, whatever the file's size.
//   - The same history gives the same report. Only the search for linearizability can end undecided, by its time limit.
//
// It does not run anything, does not read logs, and does not know why something went wrong.
package check
