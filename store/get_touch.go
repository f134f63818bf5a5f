package store

import "skylark/codec"

const (
	// touchEntries is how many records a filtered read looks at together: as many loads as a core has under way at a time
	// are in it, and few are in vain when the answer is full.
	touchEntries = 16
	// touchBytes from the end of a record, where its properties are, come along.
	touchBytes = 256
	cacheLine  = 64
)

// touch loads the cache lines that a filter needs of the records of the next entries. One record after the other each miss
// waits for the one before it, 100 ns, most of what judging a message costs; together they overlap. Only what is known to
// be in memory is touched, of entries whose unit does not judge for them.
func (g *getter) touch(entries []byte) {
	mf := g.mf
	if mf == nil {
		return
	}
	data, read := mf.data(), mf.readPosition()
	sum := byte(0)
	for n := min(len(entries), touchEntries*cqEntryBytes); n >= cqEntryBytes; n -= cqEntryBytes {
		e := decodeCQEntry(entries)
		entries = entries[cqEntryBytes:]
		pos := e.phyOffset - mf.fileFrom
		end := pos + int64(e.size)
		if isExtAddress(e.tagsCode) || e.size < codec.MinRecordBytes || pos < 0 || end > read ||
			!g.hot(mf, pos) && !g.resident(mf, pos, int64(e.size)) {
			continue
		}
		b := data[pos:end]
		sum += b[0] + b[cacheLine]
		for at := max(0, len(b)-touchBytes); at < len(b); at += cacheLine {
			sum += b[at]
		}
		sum += b[len(b)-1]
	}
	g.touched = sum
}
