package wire

// AppendHello adds HELLO. Body:
//
//	 0 u16 min version  2 u16 max version  4 u8 role  5 [3]u8 0  8 u32 heartbeat_ms
//	12 string cluster id, string client, string credentials
func AppendHello(dst []byte, h *Hello) []byte {
	start := len(dst)
	dst = begin(dst)
	dst = le.AppendUint16(dst, h.MinVersion)
	dst = le.AppendUint16(dst, h.MaxVersion)
	dst = append(dst, byte(h.Role), 0, 0, 0)
	dst = le.AppendUint32(dst, h.HeartbeatMS)
	dst = appendString(dst, h.ClusterID)
	dst = appendString(dst, h.Client)
	dst = appendString(dst, h.Credentials)
	return end(dst, start, THello, 0)
}

// DecodeHello parses the body of HELLO. Whether there is a common version is the caller's to see; Credentials is a view.
func DecodeHello(b []byte) (Hello, error) {
	d := decoder{b: b}
	h := Hello{MinVersion: d.u16(), MaxVersion: d.u16(), Role: Role(d.u8())}
	d.zero(3)
	h.HeartbeatMS = d.u32()
	h.ClusterID = d.str(MaxString, CodeProtocol, "cluster id")
	h.Client = d.str(MaxString, CodeProtocol, "client name")
	h.Credentials = d.bytes(MaxCredentials, CodeProtocol, "credentials")
	switch {
	case h.MinVersion == 0 || h.MinVersion > h.MaxVersion:
		d.fail(CodeProtocol, "range of versions is empty")
	case h.Role > RolePeer:
		d.fail(CodeProtocol, "unknown role")
	}
	if err := d.finish("HELLO"); err != nil {
		return Hello{}, err
	}
	return h, nil
}

// AppendWelcome adds WELCOME. Body:
//
//	 0 u16 version  2 u16 0  4 u32 heartbeat_ms  8 u32 max frame  12 u32 max inflight  16 u64 first seq  24 u64 last seq
//	32 string node id, topology as in TOPOLOGY
func AppendWelcome(dst []byte, w *Welcome) []byte {
	start := len(dst)
	dst = begin(dst)
	dst = le.AppendUint32(dst, uint32(w.Version))
	dst = le.AppendUint32(dst, w.HeartbeatMS)
	dst = le.AppendUint32(dst, w.MaxFrame)
	dst = le.AppendUint32(dst, w.MaxInflight)
	dst = le.AppendUint64(dst, w.FirstSeq)
	dst = le.AppendUint64(dst, w.LastSeq)
	dst = appendString(dst, w.NodeID)
	dst = appendTopology(dst, &w.Topology)
	return end(dst, start, TWelcome, 0)
}

// DecodeWelcome parses the body of WELCOME.
func DecodeWelcome(b []byte) (Welcome, error) {
	d := decoder{b: b}
	w := Welcome{Version: d.u16()}
	d.zero(2)
	w.HeartbeatMS, w.MaxFrame, w.MaxInflight = d.u32(), d.u32(), d.u32()
	w.FirstSeq, w.LastSeq = d.u64(), d.u64()
	w.NodeID = d.str(MaxString, CodeProtocol, "node id")
	w.Topology = d.topology()
	if err := d.finish("WELCOME"); err != nil {
		return Welcome{}, err
	}
	return w, nil
}

// AppendTopology adds TOPOLOGY. Body:
//
//	0 u64 term
//	8 string cluster id, string leader id, u16 count, {u8 flags, string id, string client address, string HTTP address}...
//
// Flags of a node: bit 0 voter, bit 1 alive; others 0.
func AppendTopology(dst []byte, t *Topology) []byte {
	return end(appendTopology(begin(dst), t), len(dst), TTopology, 0)
}

const (
	nodeVoter = 1
	nodeAlive = 2
	// nodeMinBytes is a node with empty strings.
	nodeMinBytes = 1 + 3*2
)

func appendTopology(dst []byte, t *Topology) []byte {
	dst = le.AppendUint64(dst, t.Term)
	dst = appendString(dst, t.ClusterID)
	dst = appendString(dst, t.LeaderID)
	nodes := t.Nodes[:min(len(t.Nodes), MaxNodes)]
	dst = le.AppendUint16(dst, uint16(len(nodes)))
	for i := range nodes {
		n := &nodes[i]
		var flags byte
		if n.Voter {
			flags |= nodeVoter
		}
		if n.Alive {
			flags |= nodeAlive
		}
		dst = append(dst, flags)
		dst = appendString(dst, n.ID)
		dst = appendString(dst, n.ClientAddr)
		dst = appendString(dst, n.HTTPAddr)
	}
	return dst
}

// DecodeTopology parses the body of TOPOLOGY.
func DecodeTopology(b []byte) (Topology, error) {
	d := decoder{b: b}
	t := d.topology()
	if err := d.finish("TOPOLOGY"); err != nil {
		return Topology{}, err
	}
	return t, nil
}

func (d *decoder) topology() Topology {
	t := Topology{Term: d.u64()}
	t.ClusterID = d.str(MaxString, CodeProtocol, "cluster id")
	t.LeaderID = d.str(MaxString, CodeProtocol, "leader id")
	count := d.count(MaxNodes, nodeMinBytes, CodeProtocol, "nodes")
	for range count {
		flags := d.u8()
		if flags&^(nodeVoter|nodeAlive) != 0 {
			d.fail(CodeProtocol, "unknown flags of a node")
		}
		t.Nodes = append(t.Nodes, NodeInfo{
			ID:         d.str(MaxString, CodeProtocol, "node id"),
			ClientAddr: d.str(MaxString, CodeProtocol, "client address"),
			HTTPAddr:   d.str(MaxString, CodeProtocol, "HTTP address"),
			Voter:      flags&nodeVoter != 0,
			Alive:      flags&nodeAlive != 0,
		})
	}
	return t
}
