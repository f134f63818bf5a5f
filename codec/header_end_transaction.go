package codec

// EndTransactionHeader is EndTransactionRequestHeader for the broker: the fields that count, read in one pass without
// reflection or allocation. Slices alias the frame, or memory of the header's own where the frame had escapes.
type EndTransactionHeader struct {
	ProducerGroup        []byte
	MsgID                []byte
	TranStateTableOffset QueueOffset
	CommitLogOffset      PhyOffset
	CommitOrRollback     int32
	FromTransactionCheck bool

	scratch []byte
}

// The required fields of an END_TRANSACTION; the bit is set when the field was seen.
const (
	endProducerGroup = 1 << iota
	endTranStateTableOffset
	endCommitLogOffset
	endCommitOrRollback
	endMsgID
)

var endFieldNames = [...]string{"producerGroup", "tranStateTableOffset", "commitLogOffset", "commitOrRollback", "msgId"}

// Decode reads c's fields. The error is a *HeaderError: a field that cannot be read, or the first required one that is
// missing.
func (h *EndTransactionHeader) Decode(c *Command) error {
	*h = EndTransactionHeader{scratch: h.scratch[:0]}
	seen := 0
	for i := range c.Fields {
		f := &c.Fields[i]
		bit, want, n := 0, "", int64(0)
		switch string(f.Key) {
		case "producerGroup":
			bit, h.ProducerGroup = endProducerGroup, f.text(&h.scratch)
		case "msgId":
			bit, h.MsgID = endMsgID, f.text(&h.scratch)
		case "tranStateTableOffset":
			bit, want = endTranStateTableOffset, f.int64Into(&n)
			h.TranStateTableOffset = QueueOffset(n)
		case "commitLogOffset":
			bit, want = endCommitLogOffset, f.int64Into(&n)
			h.CommitLogOffset = PhyOffset(n)
		case "commitOrRollback":
			bit, want = endCommitOrRollback, f.int32Into(&h.CommitOrRollback)
		case "fromTransactionCheck":
			h.FromTransactionCheck = f.isTrue()
		}
		if want != "" {
			return &HeaderError{Field: string(f.Key), Value: f.Text(), Want: want}
		}
		seen |= bit
	}
	for i, name := range endFieldNames {
		if seen&(1<<i) == 0 {
			return &HeaderError{Field: name, Want: "required"}
		}
	}
	return nil
}
