// Package e2e holds the whole system to its promises: real nodes with their logs on disk, the real servers, the real client,
// over TCP, against slow obvious models.
//
// It is tests only. Its promise is about what they check: every message that was acknowledged stands in every node's stream
// exactly once and at the seq of its ack, and every reader gets exactly what its filters match of the range that it read,
// whatever was killed, restarted, cut or moved meanwhile. The cases that public reports about other brokers tell of are
// tests of their own, named by number: 3 to 9 and 16 to 19 here, 20 with 19. The others are elsewhere:
//
//	1, 2        TestOpeningCostsNoScan and TestPublishingUnderRetentionTouchesNoOtherTopic in package cluster
//	9 to 15, 17 jepsen cases: leader-changes, power-cut, flipped-bits, pauses-and-power, members-under-cuts, full-disk, torn-files, retries
//	11          TestDamagedNodeComesBack and TestDamageIsRepaired in package cluster
//	15          TestSpoiledFilesOfAVoter and TestNodeWithDamagedFile in package cluster
//
// What it does not do: faults of disks and clocks, partitions between nodes, and separate processes; those need a harness
// that runs the binary.
//
// Environment: CANTUS_E2E_LONG=1 runs every case at its full size, and replays the whole recorded stream, which must lie in ../shared/data
// beside the module, else that test is skipped and says so; CANTUS_E2E_SEED=n replays one run of the property test.
package e2e
