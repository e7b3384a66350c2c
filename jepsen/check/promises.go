package check

// Name is the name of a check.
type Name string

// The checks, in the order of reports.
const (
	Lost         Name = "lost"
	Twice        Name = "twice"
	Order        Name = "order"
	Foreign      Name = "foreign"
	Missing      Name = "missing"
	Chain        Name = "chain"
	Dense        Name = "dense"
	Disagree     Name = "disagree"
	Progress     Name = "progress"
	CaughtUp     Name = "caughtup"
	Refused      Name = "refused"
	Phantom      Name = "phantom"
	Producer     Name = "producer"
	RealTime     Name = "realtime"
	Torn         Name = "torn"
	Conditions   Name = "conditions"
	Stale        Name = "stale"
	Money        Name = "money"
	Linear       Name = "linear"
	Digests      Name = "digests"
	Availability Name = "availability"
	Stuck        Name = "stuck"
)

// promises says what each check holds the cluster to.
var promises = []struct {
	name    Name
	promise string
}{
	{Lost, "an acked message has its seq for ever: every matching reader that passes it is given it"},
	{Twice, "a message is published and delivered exactly once"},
	{Order, "a reader is given messages in the order of their seqs"},
	{Foreign, "a reader is given only messages of its filters, after its start"},
	{Missing, "a reader is given every message of its filters between its start and its position"},
	{Chain, "a delivery names the matching seq before it, so that a reader sees any gap"},
	{Dense, "seqs are dense"},
	{Disagree, "all readers, point reads and acks agree on the message at a seq"},
	{Progress, "what a progress mark says is safe to resume after was delivered before it"},
	{CaughtUp, "caught-up comes once, after the last match at or below the head at opening"},
	{Refused, "a refused publish was not published and never will be"},
	{Phantom, "every message in the stream was published, under that topic, by somebody"},
	{Producer, "the messages of one producer stand in the stream in the order of their publishing"},
	{RealTime, "a message whose publishing began after another was acked stands behind it"},
	{Torn, "an atomic batch is in the stream whole, as neighbours, or not at all"},
	{Conditions, "a batch is published only if the last messages of its preconditions' topics were the ones named"},
	{Stale, "a point read is as fresh as it was asked to be, and exact as of a seq"},
	{Money, "every snapshot of the accounts sums up to the same total"},
	{Linear, "conditional publishes and linearizable reads have one order that explains all of their answers"},
	{Digests, "after healing all replicas are equal, part by part"},
	{Availability, "a connected majority acks within a bounded time"},
	{Stuck, "a reader goes on within a bounded time once nothing is in its way"},
}
