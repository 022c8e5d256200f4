package admission

// heap is a binary heap: the item that goes first by less is items[0].
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	moved func(item T, at int) // told where an item is now, -1: gone; may be nil
}

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	h.up(len(h.items) - 1)
}

// pop removes the first item.
func (h *heap[T]) pop() (first T, ok bool) {
	if len(h.items) == 0 {
		return first, false
	}
	return h.remove(0), true
}

func (h *heap[T]) remove(at int) T {
	last := len(h.items) - 1
	item := h.items[at]
	h.items[at] = h.items[last]
	clear(h.items[last:])
	h.items = h.items[:last]
	if at < last && !h.down(at) {
		h.up(at)
	}
	if h.moved != nil {
		h.moved(item, -1)
	}
	return item
}

// init makes any items a heap.
func (h *heap[T]) init() {
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap[T]) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if !h.less(h.items[at], h.items[parent]) {
			break
		}
		h.swap(at, parent)
		at = parent
	}
	h.tell(at)
}

// down reports whether the item went down at all.
func (h *heap[T]) down(at int) bool {
	start := at
	for {
		child := 2*at + 1
		if child >= len(h.items) {
			break
		}
		if r := child + 1; r < len(h.items) && h.less(h.items[r], h.items[child]) {
			child = r
		}
		if !h.less(h.items[child], h.items[at]) {
			break
		}
		h.swap(at, child)
		at = child
	}
	h.tell(at)
	return at > start
}

func (h *heap[T]) swap(a, b int) {
	h.items[a], h.items[b] = h.items[b], h.items[a]
	h.tell(a)
}

func (h *heap[T]) tell(at int) {
	if h.moved != nil {
		h.moved(h.items[at], at)
	}
}

// cursor reads a heap in order and leaves it as it is: the next item is always
// one of the children of those already read, and only these are kept.
type cursor[T any] struct {
	of    *heap[T]
	front heap[int] // places in of.items
}

func newCursor[T any](h *heap[T]) *cursor[T] {
	c := &cursor[T]{of: h}
	c.front.less = func(a, b int) bool { return h.less(h.items[a], h.items[b]) }
	c.add(0)
	return c
}

func (c *cursor[T]) add(at int) {
	if at < len(c.of.items) {
		c.front.push(at)
	}
}

// head is the next item, false when all are read.
func (c *cursor[T]) head() (item T, ok bool) {
	if len(c.front.items) == 0 {
		return item, false
	}
	return c.of.items[c.front.items[0]], true
}

// next steps over the head.
func (c *cursor[T]) next() {
	if at, ok := c.front.pop(); ok {
		c.add(2*at + 1)
		c.add(2*at + 2)
	}
}
