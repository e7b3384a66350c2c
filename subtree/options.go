package subtree

const (
	// DefaultOpenFiles bounds the files that are kept open while nobody reads them.
	DefaultOpenFiles = 64
	// DefaultCacheBytes bounds the cache of block tables and topic directories.
	DefaultCacheBytes = 32 << 20
	// DefaultCursorBytes bounds the decoded records that a cursor holds between reads.
	DefaultCursorBytes = 32 << 20
	// DefaultSharedBytes bounds the records that readers of the same filters keep for each other.
	DefaultSharedBytes = 32 << 20
	// DefaultReadBytes bounds a read whose Limit leaves Bytes open.
	DefaultReadBytes = 256 << 10
	// DefaultScanBytes bounds the decoded bytes of a read whose Limit leaves Scan open.
	DefaultScanBytes = 4 << 20
)

// Options of a Store. The zero value takes the defaults.
type Options struct {
	OpenFiles   int   // files kept open while nobody reads them; each running read may hold one more
	CacheBytes  int64 // of block tables and topic directories, shared by all readers
	CursorBytes int   // decoded records held by one cursor; see DESIGN.md, "Memory"
	SharedBytes int64 // of records that cursors with the same filters keep for each other, in all
}

func (o *Options) normalise() {
	if o.OpenFiles <= 0 {
		o.OpenFiles = DefaultOpenFiles
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.CursorBytes <= 0 {
		o.CursorBytes = DefaultCursorBytes
	}
	if o.SharedBytes <= 0 {
		o.SharedBytes = DefaultSharedBytes
	}
}

// Limit of one read. Whatever it says, a read returns one record if there is one, and may return less.
type Limit struct {
	Bytes int    // stop before exceeding it; 0: DefaultReadBytes
	Count int    // records; 0: no limit
	UpTo  uint64 // stop after this seq; 0: at the end of history
	Scan  int    // bytes to decode before the read returns with Scanned advanced and Count maybe 0; 0: DefaultScanBytes
}

func (l *Limit) normalise() {
	if l.Bytes <= 0 {
		l.Bytes = DefaultReadBytes
	}
	if l.Count <= 0 {
		l.Count = int(^uint(0) >> 1)
	}
	if l.UpTo == 0 {
		l.UpTo = ^uint64(0)
	}
	if l.Scan <= 0 {
		l.Scan = DefaultScanBytes
	}
}
