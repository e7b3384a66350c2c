// Package transport is the server of the binary protocol: publishers and subscribers over TCP, or over any net.Conn.
//
// It promises that the batches of a connection are handed to the broker in the order of their frames; that a batch is
// answered by exactly one ack while its connection lives; that a subscription delivers its matches in seq order, each
// once, with the seq of the match before each frame; that caught-up is said once and not too early, and a progress mark
// never runs ahead of what was delivered; that every queue of a connection is bounded and a full one pushes back on the
// client; and that a client that breaks a rule gets a coded error and hurts no other connection.
//
// It does not decide anything about messages: order, duplicates and topics are the broker's. It keeps no messages
// either: a subscription is a position in the stream, and a slow one costs no memory. It knows nothing of raft.
package transport
