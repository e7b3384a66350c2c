// Package fake is a Cantus cluster inside the process, for tests of programs that use the client.
//
// It speaks the real protocol over connections in memory, so that the whole client runs, and has a switch for each
// thing that goes wrong in a real cluster: servers that die, hang or lag, leaders that change, acks that are lost, data
// frames that are lost or repeated. It keeps producers, duplicates, fences and preconditions as the real state machine
// does.
//
//	b := fake.New(fake.Options{Nodes: 3})
//	defer b.Close()
//	c, err := client.Connect(ctx, b.ClientOptions())
//
// It works inside a testing/synctest bubble: nothing in it waits for the network, and the only clock is time.Now.
//
// It promises what package conformance tests. It does not promise speed, and everything it holds is gone at Close.
package fake
