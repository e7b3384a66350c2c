package topic

import "iter"

// STUBS: the contract of this package; the owner replaces this file by real ones.

// ID numbers a node of the topic tree, in order of creation. 0 is the root (the empty path). Every prefix of a topic is a
// node; a node that was itself published to is a topic. The numbers are the same on every replica.
type ID uint32

// PartitionID numbers partitions densely from 0 in order of creation.
type PartitionID uint32

// NoPartition is the partition of the root, and of a one-segment node that is not a topic.
const NoPartition = ^PartitionID(0)

const (
	MaxSegments = 32
	MaxBytes    = 512
)

// Error says which rule a name or filter breaks. errors.As works on it.
type Error struct{ Op, Name, Rule string }

func (e *Error) Error() string { panic("stub") }

func Validate(name string) error { panic("stub") }

// PartitionOf returns the two-segment prefix of a valid topic.
func PartitionOf(name string) string { panic("stub") }

// Filter is a topic or a subtree ("a/b/**"; "**" is everything).
type Filter struct {
	path    string
	subtree bool
}

func ParseFilter(s string) (Filter, error) { panic("stub") }
func (f Filter) String() string            { panic("stub") }
func (f Filter) Path() string              { panic("stub") } // "" for "**"
func (f Filter) Subtree() bool             { panic("stub") }
func (f Filter) Match(name string) bool    { panic("stub") }

// Filters is a union, normalised: sorted, without members that another covers.
type Filters []Filter

func ParseFilters(list []string) (Filters, error) { panic("stub") } // empty list: error; more than 1024: error
func (fs Filters) Match(name string) bool         { panic("stub") }
func (fs Filters) Strings() []string              { panic("stub") }

// Table is the topic table and tree. One goroutine writes (Intern, Add); any number read without locks.
type Table struct{}

// NewTable: maxTopics bounds the number of topics (default limit 4 M).
func NewTable(maxTopics int) *Table { panic("stub") }

// Intern finds or makes a topic (and the nodes above it). Writer only. ErrTooMany at the limit, *Error for a bad name.
func (t *Table) Intern(name []byte) (id ID, created bool, err error) { panic("stub") }

// Lookup finds a node by its path, whether a topic or not.
func (t *Table) Lookup(path string) (ID, bool)      { panic("stub") }
func (t *Table) LookupBytes(path []byte) (ID, bool) { panic("stub") }
func (t *Table) Nodes() int                         { panic("stub") } // ids below this are visible
func (t *Table) Topics() int                        { panic("stub") }
func (t *Table) Partitions() int                    { panic("stub") }
func (t *Table) Name(id ID) string                  { panic("stub") } // no allocation; points into the table's arena
func (t *Table) IsTopic(id ID) bool                 { panic("stub") }
func (t *Table) Parent(id ID) ID                    { panic("stub") }
func (t *Table) Depth(id ID) int                    { panic("stub") }
func (t *Table) Partition(id ID) PartitionID        { panic("stub") } // the hot look-up: one array load
func (t *Table) PartitionNode(p PartitionID) ID     { panic("stub") }
func (t *Table) Children(id ID) iter.Seq[ID]        { panic("stub") }

// Add counts messages and bytes (payload + headers) to a topic and sets its last seq. Writer only.
func (t *Table) Add(id ID, messages, bytes, lastSeq uint64) { panic("stub") }

// Stats of the topic itself (not its subtree).
func (t *Table) Stats(id ID) (messages, bytes, lastSeq uint64) { panic("stub") }

// Volume is a row of List.
type Volume struct {
	ID              ID
	Topic           string
	IsTopic         bool
	Messages, Bytes uint64
	LastSeq         uint64
	Children        int
}

// ListOptions: pages of the tree. Depth 0: topics themselves; depth n: nodes n segments below the filter with what is
// under them added up.
type ListOptions struct {
	Filter        Filter
	Depth         int
	Sort          string // "name" (default), "bytes", "messages", "rate" is the caller's
	Offset, Limit int
}

// List answers one page and the total count; sorts on the server; 1 M topics in well under a second.
func (t *Table) List(o ListOptions) (page []Volume, total int) { panic("stub") }

// Digest is a hash of names in order of creation and of all counts; equal tables have equal digests.
func (t *Table) Digest() [32]byte { panic("stub") }

// MemoryBytes is what the table occupies, arenas included.
func (t *Table) MemoryBytes() int64 { panic("stub") }

// Coverage says how much of a partition a matcher takes.
type Coverage uint8

const (
	CoverNone Coverage = iota
	CoverSome
	CoverAll
)

// Matcher evaluates filters over ids: a node's verdict is computed once from its name or parent and then cached in pages
// of bits that exist only for ids it was asked about. One goroutine.
type Matcher struct{}

func NewMatcher(t *Table, fs Filters) *Matcher     { panic("stub") }
func (m *Matcher) Filters() Filters                { panic("stub") }
func (m *Matcher) Everything() bool                { panic("stub") } // "**"
func (m *Matcher) Match(id ID) bool                { panic("stub") }
func (m *Matcher) Coverage(p PartitionID) Coverage { panic("stub") }

// Partitions appends those of [from, t.Partitions()) with coverage other than CoverNone and returns the count seen, to be
// given as from the next time. Filters that name a partition or less cost a look-up, not a scan over all partitions.
func (m *Matcher) Partitions(dst []PartitionID, from int) ([]PartitionID, int) { panic("stub") }
