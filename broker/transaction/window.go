package transaction

// window is a table by queue offset that moves up the queue: the offsets before front are done with. Offsets are nearly
// in order, so it is a slice; the zero value of T stands for offsets nobody has told of yet.
type window[T any] struct {
	front int64
	base  int64 // of the first item that is kept
	items []T
	head  int // items[head] is base's
}

// reset empties the window and has it begin at an offset.
func (w *window[T]) reset(base int64) { *w = window[T]{front: base, base: base} }

// at is the place of an offset, nil when it is not in the window.
func (w *window[T]) at(offset int64) *T {
	i := offset - w.base
	if i < 0 || i >= int64(len(w.items)-w.head) {
		return nil
	}
	return &w.items[w.head+int(i)]
}

// grow makes the place of an offset, nil when it is before base.
func (w *window[T]) grow(offset int64) *T {
	if offset < w.base {
		return nil
	}
	var none T
	for int64(len(w.items)-w.head) <= offset-w.base {
		w.items = append(w.items, none)
	}
	return w.at(offset)
}

// advance moves front up past all items that are done, and base behind it so that keep items remain.
func (w *window[T]) advance(done func(T) bool, keep int64) {
	w.front = max(w.front, w.base)
	for at := w.at(w.front); at != nil && done(*at); at = w.at(w.front) {
		w.front++
	}
	var none T
	for w.base < w.front-keep {
		w.items[w.head] = none
		w.head++
		w.base++
	}
	if w.head > len(w.items)/2 {
		n := copy(w.items, w.items[w.head:])
		clear(w.items[n:])
		w.items, w.head = w.items[:n], 0
		if cap(w.items) > 4096 && n < cap(w.items)/8 {
			w.items = append(make([]T, 0, 2*n), w.items...)
		}
	}
}

// end is one past the last offset that has a place.
func (w *window[T]) end() int64 { return w.base + int64(len(w.items)-w.head) }
