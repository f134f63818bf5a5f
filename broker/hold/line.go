package hold

// maxSpare bounds the array of a shard's spare line.
const maxSpare = 64

// entry is a parked request. It lives in its line alone, so that parking allocates nothing; id tells it apart.
type entry struct {
	id       uint64
	conn     uint64
	deadline int64 // ms
	wait     Wait
}

// line are those who wait on one queue, in the order they came: list[head:]. Most clients wait equally long, so deadlines
// mostly never go back, and those whose time is up stand at the front: a look at thousands costs no more than they are.
type line struct {
	list     []entry
	head     int
	due      int64 // no later than the earliest deadline
	unsorted bool  // a deadline goes back
}

// line is the line of a key, made if there is none.
func (sh *shard) line(k Key) *line {
	l := sh.waits[k]
	if l == nil {
		if l, sh.spare = sh.spare, nil; l == nil {
			l = &line{}
		}
		l.due = never
		sh.waits[k] = l
	}
	return l
}

// tidy takes a line that has run empty out of the table.
func (sh *shard) tidy(k Key, l *line) {
	if l.head < len(l.list) {
		return
	}
	delete(sh.waits, k)
	if cap(l.list) <= maxSpare {
		sh.spare = l
		*l = line{list: l.list[:0]}
	}
}

// all are those who wait; of nil nobody.
func (l *line) all() []entry {
	if l == nil {
		return nil
	}
	return l.list[l.head:]
}

func (l *line) add(e entry) {
	if len(l.list) == cap(l.list) && l.head > len(l.list)/2 { // the front is free
		n := copy(l.list, l.list[l.head:])
		clear(l.list[n:])
		l.list, l.head = l.list[:n], 0
	}
	if n := len(l.list); n > l.head && e.deadline < l.list[n-1].deadline {
		l.unsorted = true
	}
	l.list = append(l.list, e)
	l.due = min(l.due, e.deadline)
}

// expire appends those whose time is up to out and takes them away.
func (l *line) expire(out []entry, now int64) []entry {
	if l.unsorted {
		return l.keep(out, func(e *entry) bool { return e.deadline > now })
	}
	list := l.all()
	n := 0
	for n < len(list) && list[n].deadline <= now {
		n++
	}
	out = append(out, list[:n]...)
	clear(list[:n]) // nothing parked is held by the array
	l.head += n
	if l.due = never; n < len(list) {
		l.due = list[n].deadline
	}
	return out
}

// keep appends those that are not to be kept to out and takes them away.
func (l *line) keep(out []entry, kept func(e *entry) bool) []entry {
	list := l.all()
	n := 0 // how many are kept
	l.due, l.unsorted = never, false
	for i := range list {
		e := &list[i]
		if !kept(e) {
			out = append(out, *e)
			continue
		}
		if n < i {
			list[n] = *e
		}
		l.due = min(l.due, e.deadline)
		l.unsorted = l.unsorted || n > 0 && e.deadline < list[n-1].deadline
		n++
	}
	clear(list[n:])
	l.list = l.list[:l.head+n]
	return out
}
