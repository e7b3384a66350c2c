// Package plan decides which topics share a subtree store. It is pure: volumes and a budget in, plans out.
//
// A plan belongs to one partition and is a list of rules over the topic tree; the rule with the longest path wins, so
// that a topic never seen before has a store too. Compute makes the plans of all partitions from a topic table: greedy
// clustering of the tree under a limit on each store's read cost, the limit found by binary search so that the stores
// stay within the budget, then an exact merge of the pieces. DESIGN.md has the algorithm, its cost model and figures.
//
// It promises:
//   - Every topic that is, or can ever be, in the partition has exactly one store.
//   - Never more stores than the budget.
//   - Equal tables, previous plans and options give equal plans, byte for byte: integers only, no map order, no clock.
//   - A previous plan is kept for as long as it costs not much more than a fresh one, and a fresh one reuses its store ids.
//   - Decode accepts exactly what Append writes.
//
// It does not read or write messages, does not know windows or files, and does not decide when to plan.
package plan
