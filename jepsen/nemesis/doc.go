// Package nemesis hurts a cluster, heals it, and records both.
//
// A fault is chosen, aimed (at the leader, a follower, a minority, a majority, all), injected, held and healed, again and again,
// one after the other or two at a time, all by the run's seed. What a fault may do is limited by what the cluster promises to
// outlive: any number of nodes may be killed, lose power or be cut off, but only one at a time may lose or corrupt what it has
// synced, and it is replaced by a node with an empty disk before the next.
//
// It promises that Run returns with everything healed that it broke, and that every fault is in the history. It does not judge,
// and does not wait for the workload.
package nemesis
