package store

import "skylark/codec"

const (
	// touchEntries is how many records a filtered read looks at together: as many loads as a core has under way at a time
	// are in it, and few are in vain when the answer is full.
	touchEntries = 16
	// maxTouchBytes from the end of a record, where its properties are, come along before anything is known of their size.
	maxTouchBytes = 256
	// touchTopicBytes stand before the properties: the end of the body is not needed, but the topic and two lengths are.
	touchTopicBytes = 64
	cacheLine       = 64
)

// lookAhead is what a filtered read knows of the records it will see.
type lookAhead struct {
	properties int  // bytes of those of the last record, 0: nothing is known
	touched    byte // what was read, so that it is not left out
}

// tail is how much of the end of a record is needed.
func (l *lookAhead) tail() int {
	if l.properties == 0 {
		return maxTouchBytes
	}
	return min(maxTouchBytes, l.properties+touchTopicBytes)
}

// touch loads the cache lines that a filter needs of the records of some entries. One record after the other each miss
// waits for the one before it, 100 ns, most of what judging a message costs; together they overlap. Only what is known to
// be in memory is touched, of entries whose unit does not judge for them.
func (g *getter) touch(entries []byte) {
	if !g.enter(decodeCQEntry(entries).phyOffset) {
		return
	}
	data, read, tail := g.mf.data(), g.mf.readPosition(), g.look.tail()
	sum := byte(0)
	for ; len(entries) >= cqEntryBytes; entries = entries[cqEntryBytes:] {
		e := decodeCQEntry(entries)
		pos := e.phyOffset - g.mf.fileFrom
		end := pos + int64(e.size)
		if isExtAddress(e.tagsCode) || e.size < codec.MinRecordBytes || pos < 0 || end > read {
			continue
		}
		if !g.known(pos, int64(e.size)) {
			break
		}
		b := data[pos:end]
		sum += b[0] + b[recordSysFlagAt] + b[recordBodyAt+3]
		for at := max(0, len(b)-tail); at < len(b); at += cacheLine {
			sum += b[at]
		}
		sum += b[len(b)-1]
	}
	g.look.touched = sum
}
