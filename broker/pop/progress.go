package pop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"skylark/codec"
	"skylark/internal/vfs"
)

// The progress file repeats the offsets that POP commits, those of the groups and those of the revive service, in a
// mapped file: consumerOffset.json is written every few seconds only, and a broker that is killed between would give
// again what was acknowledged meanwhile. A clean stop removes the file, then consumerOffset.json has all; but not when
// messages of check points were returned that come behind an open one: no offset tells that.
//
// Layout, big endian: the magic, the time of the last touch in ms, a ring of the messages that were returned last, then
// entries, each aligned to 8 bytes: what the log must have for the offset to be right (its end, 8), the offset (8), length
// of the name (2), name: topic, group and queue id with '@' between. A zero length ends the entries. A place of the ring is
// the end of the log (8) and revive queue + 1 (8 bits), offset of the check point (51 bits), number of the message (5 bits).
//
// An offset, or a message of the ring, counts only if the log has all that was put before it: a power cut may keep the
// page of the offset and lose the messages that it passes over. And only if consumerOffset.json is not younger than the last
// touch: then another broker has used the directory meanwhile.

const (
	progressMagic = 0x534b504f50303101 // SKPOP01
	// progressRing are the messages of the ring: those of check points that are not passed yet by the revive offset.
	progressRing   = 1 << 14
	progressHeader = 16 + 16*progressRing
	progressCell   = 18 // before the name
	// progressFirst is the size of a new file, progressMost the most it grows to; what has no room is not repeated.
	progressFirst = progressHeader + 64<<10
	progressMost  = 64 << 20
	// progressSlack is how much younger consumerOffset.json may be than the last touch, in ms: touches come with tick.
	progressSlack = 500
)

// errSuperseded: the offsets were written by another broker since, so those of the progress file are of the past.
var errSuperseded = errors.New("pop: another broker has used the directory since")

// progress is the mapped file.
type progress struct {
	fs   vfs.FS
	path string
	log  *slog.Logger

	mu      sync.Mutex
	m       vfs.Mapping // nil: nothing was to be noted yet, or the disk is full
	begun   bool        // something may be noted
	touched int64       // ms
	end     int         // of the entries
	cells   map[queueKey]int
	turn    int  // the next place in the ring
	failed  bool // said once
}

// checkPointAt is the place of a check point in the revive topic.
type checkPointAt struct {
	queueID int32
	offset  codec.QueueOffset
}

// returnedMessage is a place of the ring.
type returnedMessage struct{ log, value int64 }

func (m returnedMessage) at() (checkPointAt, int) {
	return checkPointAt{int32(m.value>>56) - 1, codec.QueueOffset(m.value >> 5 & (1<<51 - 1))}, int(m.value & 31)
}

// progressEntry is what is read from a file.
type progressEntry struct {
	queueKey
	log, next int64
}

// readProgress reads what a broker that was killed has left; nil when there is nothing that counts. offsets is
// consumerOffset.json.
func readProgress(fsys vfs.FS, path, offsets string) ([]progressEntry, []returnedMessage, error) {
	data, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if len(data) < progressHeader || binary.BigEndian.Uint64(data) != progressMagic {
		return nil, nil, fmt.Errorf("pop: %s is no progress file", path)
	}
	touched := int64(binary.BigEndian.Uint64(data[8:]))
	if info, err := fsys.Stat(offsets); err == nil && info.ModTime().UnixMilli() > touched+progressSlack {
		return nil, nil, fmt.Errorf("%w: %s is older than %s", errSuperseded, path, offsets)
	}
	return parseProgress(data[progressHeader:]), parseRing(data), nil
}

func parseRing(data []byte) (out []returnedMessage) {
	for at := 16; at < progressHeader; at += 16 {
		m := returnedMessage{int64(binary.BigEndian.Uint64(data[at:])), int64(binary.BigEndian.Uint64(data[at+8:]))}
		if m.value > 0 {
			out = append(out, m)
		}
	}
	return out
}

func parseProgress(data []byte) (out []progressEntry) {
	for at := 0; at+progressCell <= len(data); {
		n := int(binary.BigEndian.Uint16(data[at+16:]))
		if n == 0 || at+progressCell+n > len(data) {
			break
		}
		e := progressEntry{log: int64(binary.BigEndian.Uint64(data[at:])), next: int64(binary.BigEndian.Uint64(data[at+8:]))}
		if k, ok := parseProgressName(string(data[at+progressCell : at+progressCell+n])); ok && e.next >= 0 {
			e.queueKey = k
			out = append(out, e)
		}
		at += progressSize(n)
	}
	return out
}

func (k queueKey) progressName() string {
	return k.topic + codec.TopicGroupSeparator + k.group + codec.TopicGroupSeparator + strconv.Itoa(int(k.queueID))
}

func parseProgressName(name string) (k queueKey, ok bool) {
	f := strings.Split(name, codec.TopicGroupSeparator)
	if len(f) != 3 {
		return k, false
	}
	id, err := strconv.ParseInt(f[2], 10, 32)
	k = queueKey{f[0], f[1], int32(id)}
	return k, err == nil && id >= 0 && f[0] != "" && f[1] != "" && k.progressName() == name
}

func progressSize(name int) int { return (progressCell + name + 7) &^ 7 }

// set notes that a queue has come to next, for which the log has to reach end.
func (p *progress) set(k queueKey, next codec.QueueOffset, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ready() {
		return
	}
	at, ok := p.cells[k]
	if !ok {
		if at = p.enter(k); at < 0 {
			return
		}
	}
	b := p.m.Bytes()
	binary.BigEndian.PutUint64(b[at:], uint64(end)) // first: a wrong end that is too large does no harm
	binary.BigEndian.PutUint64(b[at+8:], uint64(next))
}

// returned notes that a message of a check point has been returned, for which the log has to reach end.
func (p *progress) returned(ck checkPointAt, message int, end int64) {
	if ck.queueID < 0 || ck.queueID >= 126 {
		return
	}
	p.put(returnedMessage{end, int64(ck.queueID+1)<<56 | int64(ck.offset)<<5 | int64(message)})
}

func (p *progress) put(m returnedMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ready() {
		return
	}
	b := p.m.Bytes()[16+16*p.turn:]
	binary.BigEndian.PutUint64(b, uint64(m.log))
	binary.BigEndian.PutUint64(b[8:], uint64(m.value))
	p.turn = (p.turn + 1) % progressRing
}

// ring gives the messages of the ring.
func (p *progress) ring() []returnedMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m == nil {
		return nil
	}
	return parseRing(p.m.Bytes())
}

// move is set for a queue that has an entry.
func (p *progress) move(k queueKey, next codec.QueueOffset, end int64) {
	p.mu.Lock()
	_, ok := p.cells[k]
	p.mu.Unlock()
	if ok {
		p.set(k, next, end)
	}
}

// drop has the entries of what was deleted count no more.
func (p *progress) drop(match func(topic, group string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m == nil {
		return
	}
	for k, at := range p.cells {
		if match(k.topic, k.group) {
			binary.BigEndian.PutUint64(p.m.Bytes()[at+8:], ^uint64(0))
		}
	}
}

// enter makes an entry, whose offset does not count yet; -1 when there is no room.
func (p *progress) enter(k queueKey) int {
	name := k.progressName()
	size := progressSize(len(name))
	if p.end+size+progressCell > len(p.m.Bytes()) && !p.grow() || len(name) > 1<<15 {
		return -1
	}
	at, b := p.end, p.m.Bytes()
	binary.BigEndian.PutUint64(b[at+8:], ^uint64(0)) // -1
	copy(b[at+progressCell:], name)
	binary.BigEndian.PutUint16(b[at+16:], uint16(len(name))) // last: now it is there
	p.end = at + size
	p.cells[k] = at
	return at
}

// grow goes over to a file of twice the size.
func (p *progress) grow() bool {
	old := p.m.Bytes()
	if len(old)*2 > progressMost {
		p.complain(fmt.Errorf("pop: %s is full", p.path))
		return false
	}
	next, err := p.create(int64(len(old)*2), old[:p.end])
	if err != nil {
		p.complain(err)
		return false
	}
	if err := p.m.Unmap(); err != nil {
		p.complain(err)
	}
	p.m = next
	return true
}

// complain says once that offsets are not repeated: a crash may then give messages again.
func (p *progress) complain(err error) {
	if !p.failed {
		p.failed = true
		p.log.Warn("offsets of POP are not kept over a crash", "error", err)
	}
}

// create makes the file anew, with some content, in the place of the one there is.
func (p *progress) create(size int64, content []byte) (vfs.Mapping, error) {
	name := p.path + ".tmp"
	f, err := p.fs.Create(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Allocate(0, size); err != nil {
		return nil, err
	}
	m, err := f.Map(size, true)
	if err != nil {
		return nil, err
	}
	copy(m.Bytes(), content)
	if err := p.fs.Rename(name, p.path); err != nil {
		return nil, errors.Join(err, m.Unmap())
	}
	return m, nil
}

// open has what follows noted; the file is made when there is something.
func (p *progress) open(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun, p.touched = true, now
}

// ready makes the file, in the place of an old one, unless there is one; false: it cannot be, or nothing is to be noted.
func (p *progress) ready() bool {
	if p.m != nil || !p.begun {
		return p.m != nil
	}
	head := binary.BigEndian.AppendUint64(nil, progressMagic)
	head = binary.BigEndian.AppendUint64(head, uint64(p.touched))
	m, err := p.create(progressFirst, head)
	if err != nil {
		p.begun = false // no second try: an old file would count again
		p.complain(err)
		return false
	}
	p.m, p.end, p.cells, p.turn = m, progressHeader, map[queueKey]int{}, 0
	return true
}

// discardOld removes the file of the run before if this one has not made its own yet: everything in it is taken over.
func (p *progress) discardOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m != nil {
		return
	}
	if err := p.fs.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Warn("old offsets of POP not removed", "file", p.path, "error", err)
	}
}

// touch tells that this broker still runs.
func (p *progress) touch(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.touched = now
	if p.m != nil {
		binary.BigEndian.PutUint64(p.m.Bytes()[8:], uint64(now))
	}
}

// close ends the file; when remove is set it is not needed any more.
func (p *progress) close(remove bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = false
	if p.m == nil {
		return nil
	}
	err := p.m.Unmap()
	p.m = nil
	if remove {
		err = errors.Join(err, p.fs.Remove(p.path))
	}
	return err
}
