// Package pages shares memory for bulk (transfers) among all connections, in pages of the size of a
// bulk message, which is half the size of the largest message. The garbage collector frees unused
// pages.
package pages

import "sync"

// Size is the size of a page in bytes.
const Size = 32 << 10

// A Page is memory for the exclusive use of the caller of Take.
type Page [Size]byte

// spare holds the pages that nobody is using.
var spare = sync.Pool{New: func() any { return new(Page) }}

// Take returns a page with arbitrary content. Like Give, it is safe for concurrent use.
func Take() *Page { return spare.Get().(*Page) }

// Give returns a page. The caller must not use it, or any part of it, again.
func Give(p *Page) { spare.Put(p) }
