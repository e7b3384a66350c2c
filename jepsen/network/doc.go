// Package network puts each node of a cluster at a place of its own and breaks the links between them.
//
// There are two networks. Namespaces gives each node a Linux network namespace with a virtual cable to one bridge: cuts drop
// packets in the receiver's namespace, for every protocol and port, and need root. Proxy needs no rights: nodes listen on
// 127.0.0.1 and tell each other addresses of 127.0.1.0/24, behind which a relay in this process passes bytes on; it can also
// delay, thin and reset links. The relay carries raft and gossip; a node tells others the address that it listens on for
// clients, so what one node forwards to another passes it by.
//
// It promises that no packet leaves the machine, that a cut is directed (the other way stays open unless it is cut too), and
// that Close leaves no namespace, device, rule or goroutine. It does not know what runs in the nodes.
package network
