// Package fsm is the state machine behind the log: committed entries go in, messages with seq and time come out to the tip, and
// a small state (topics with their volumes, producers, configuration) says what the next entry does.
//
// It promises that the same entries give the same state, results and stored bytes on every node and in every run: it has no
// clock, no network and no randomness, and no order of a map reaches anything that it decides. It promises that an idempotent
// producer's message is published at most once, that a batch is published whole or not at all, and that an entry that fails a
// check changes nothing. Applying allocates nothing per message.
//
// It does not propose, retry, or speak to a publisher (cluster does), store messages (tipstore does), or decide when producers
// expire: that is an entry in the log like everything else.
package fsm
