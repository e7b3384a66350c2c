package topic

// Orders of List. The counts go from high to low, and nodes with equal counts in order of creation.
const (
	SortName     = "name"     // by the bytes of the whole path
	SortBytes    = "bytes"    // most bytes first
	SortMessages = "messages" // most messages first
	SortRecent   = "recent"   // highest last seq first
)

// Volume is a row of List.
type Volume struct {
	ID              ID
	Topic           string // points into the table, as Name does
	IsTopic         bool
	Messages, Bytes uint64 // of the topic, or of the subtree when ListOptions.Depth is not 0
	LastSeq         uint64 // likewise: the highest
	Children        int    // nodes one segment below
	Topics          int    // topics at or below
}

// ListOptions choose the rows of List and their order.
type ListOptions struct {
	// Filter limits the rows. The zero Filter is "**".
	Filter Filter
	// Depth 0 lists the topics that match. Depth n lists the nodes n segments below the filter's path, topics or not,
	// each with everything at and below it added up. A filter that is not a subtree lists its topic, whatever Depth is.
	Depth int
	// Sort is one of the Sort constants; any other value is SortName.
	Sort string
	// Weight, if given, is the order instead of Sort: heaviest first. It is asked once a row and may not be negative.
	Weight func(ID) float64
	// Offset and Limit cut a page out of the sorted rows. Limit 0 or less: all rows from Offset on.
	Offset, Limit int
}

// List returns one page of rows and the count of all rows. It runs beside the writer, on the nodes that exist when it
// begins; counts may move while it runs. It costs one pass over the subtree, or over the table if the subtree is most of
// it, and sorts only the page. With a Depth it takes 4 bytes a node for the time of the call.
func (t *Table) List(o ListOptions) (page []Volume, total int) {
	base, ok := t.Lookup(o.Filter.path)
	nodes := uint32(t.Nodes())
	if !ok || uint32(base) >= nodes {
		return nil, 0
	}
	l := newListing(t, base, nodes, o)
	switch {
	case o.Filter.path != "" && !o.Filter.subtree:
		l.enter(base, inside)
	case o.Depth > 0:
		l.level = t.Depth(base) + o.Depth
		l.walk()
		l.offerGroups()
	default:
		l.walk()
	}
	return l.page(), l.picked.total
}
