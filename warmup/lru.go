package warmup

import (
	"container/list"
	"sync"
)

// lru keeps the size entries used last; a size of 0 or less keeps none. It is
// safe for concurrent use.
type lru[K comparable, V any] struct {
	size int

	mu    sync.Mutex
	order *list.List // of *lruEntry, the one used last in front
	at    map[K]*list.Element
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](size int) *lru[K, V] {
	return &lru[K, V]{size: size, order: list.New(), at: make(map[K]*list.Element)}
}

func (c *lru[K, V]) get(k K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.at[k]
	if !ok {
		return v, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*lruEntry[K, V]).value, true
}

func (c *lru[K, V]) put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.at[k]; ok {
		e.Value.(*lruEntry[K, V]).value = v
		c.order.MoveToFront(e)
		return
	}
	c.at[k] = c.order.PushFront(&lruEntry[K, V]{k, v})
	for len(c.at) > max(c.size, 0) {
		last := c.order.Back()
		delete(c.at, c.order.Remove(last).(*lruEntry[K, V]).key)
	}
}

func (c *lru[K, V]) drop(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.at[k]; ok {
		c.order.Remove(e)
		delete(c.at, k)
	}
}

// values are all of them, the one used last first.
func (c *lru[K, V]) values() []V {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]V, 0, len(c.at))
	for e := c.order.Front(); e != nil; e = e.Next() {
		out = append(out, e.Value.(*lruEntry[K, V]).value)
	}
	return out
}
