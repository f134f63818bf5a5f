package store

import "skylark/codec"

// PeekRecord is ReadRecord for event loops: it copies the whole record at p to buf[:0] if its bytes are in memory. false
// says that it would have to wait, or that no record starts there; ReadRecord knows which.
func (s *MessageStore) PeekRecord(p PhyOffset, buf []byte) ([]byte, bool) {
	head, mf, ok := s.cl.slice(p, codec.BlankRecordBytes)
	if !ok {
		return nil, false
	}
	defer mf.Release()
	pos, now := int64(p)-mf.fileFrom, s.o.Clock.Millis()
	if !mf.cache.resident(mf, pos, codec.BlankRecordBytes, now) {
		return nil, false
	}
	size, magic := codec.RecordSize(head)
	if magic != codec.MagicV1 && magic != codec.MagicV2 || size < codec.MinRecordBytes ||
		pos+int64(size) > mf.readPosition() || !mf.cache.resident(mf, pos, int64(size), now) {
		return nil, false
	}
	rec := mf.data()[pos : pos+int64(size)]
	if parsed, err := codec.ParseRecord(rec, false); err != nil || parsed.PhyOffset != p {
		return nil, false
	}
	return append(buf[:0], rec...), true
}
