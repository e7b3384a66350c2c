// Package run is one run of the harness: cluster, workload, nemesis, healing, final reads, judgement.
//
//	start nodes ─► workload ─────────────────────────────────────► publishers end ─► readers drain ─► final reads ─► verify ─► check
//	                 └► faults, --time long ─► heal ─► calm for a while ─┘
//
// It promises that nothing stays behind but the run's folder: no process, namespace, mount or port; that a run which found
// nothing leaves no folder unless it is asked to; and that a folder holds all that Check needs to judge again.
//
//	FOLDER/history.jsonl   every operation
//	FOLDER/run.json        options, and what the harness found beside the history
//	FOLDER/report.txt      the judgement for people
//	FOLDER/nN/node.log     what node N said, all its starts
//	FOLDER/nN/data         its data folder at the end, if the run found something
package run
