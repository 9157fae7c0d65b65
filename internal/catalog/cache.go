package catalog

import (
	"container/list"
	"sync"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// What a process keeps in memory.
const (
	maxEntries = 2000
	maxBytes   = 32 << 20 // of bodies
)

type key struct {
	namespace, kind string
	digest          events.Digest
}

// entry is one version; it is decoded when that is first asked for.
type entry struct {
	version Version
	decode  func() (*spec.Document, error)
}

// cache keeps the versions that were used last.
type cache struct {
	mu      sync.Mutex
	entries int // limits
	bytes   int
	used    int
	order   *list.List // of *entry, the last used first
	byKey   map[key]*list.Element
}

func newCache(entries, bytes int) *cache {
	return &cache{entries: entries, bytes: bytes, order: list.New(), byKey: map[key]*list.Element{}}
}

func keyOf(v Version) key { return key{v.Namespace, v.Kind, v.Digest} }

func (c *cache) get(k key) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byKey[k]
	if el == nil {
		return nil
	}
	c.order.MoveToFront(el)
	return el.Value.(*entry)
}

// add keeps a version whose digest was checked, and returns what is kept: the
// first one wins, so that it is decoded once.
func (c *cache) add(v Version) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.byKey[keyOf(v)]; el != nil {
		c.order.MoveToFront(el)
		return el.Value.(*entry)
	}
	e := &entry{version: v, decode: sync.OnceValues(func() (*spec.Document, error) { return spec.Decode(v.Body) })}
	c.byKey[keyOf(v)] = c.order.PushFront(e)
	c.used += len(v.Body)
	for len(c.byKey) > c.entries || c.used > c.bytes && len(c.byKey) > 1 {
		last := c.order.Remove(c.order.Back()).(*entry)
		delete(c.byKey, keyOf(last.version))
		c.used -= len(last.version.Body)
	}
	return e
}
