package door

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
)

// PageInput is what list routes take; embed it in their input.
type PageInput struct {
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"items on one page"`
	Cursor string `query:"cursor" maxLength:"2000" doc:"next_cursor of the page before"`
}

// Page is what list routes answer.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor,omitempty" doc:"absent on the last page"`
}

// NewPage cuts items, of which one more than limit was read, to a page whose
// cursor is made from its last item.
func NewPage[T any](items []T, limit int, at func(T) any) Page[T] {
	p := Page[T]{Items: items}
	if p.Items == nil {
		p.Items = []T{}
	}
	if len(items) > limit {
		p.Items = items[:limit]
		p.NextCursor = EncodeCursor(at(p.Items[limit-1]))
	}
	return p
}

// PageOf is NewPage of items that are shown in another form.
func PageOf[T, V any](items []T, limit int, at func(T) any, show func(T) V) Page[V] {
	cut := NewPage(items, limit, at)
	p := Page[V]{Items: make([]V, 0, len(cut.Items)), NextCursor: cut.NextCursor}
	for _, item := range cut.Items {
		p.Items = append(p.Items, show(item))
	}
	return p
}

// EncodeCursor makes an opaque cursor from a position.
func EncodeCursor(position any) string {
	b, err := json.Marshal(position)
	if err != nil {
		panic(err) // positions are our own small structs
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// DecodeCursor reads a cursor into position and reports whether there was one.
// A cursor that is not ours is a 400.
func DecodeCursor(cursor string, position any) (ok bool, err error) {
	if cursor == "" {
		return false, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(b, position)
	}
	if err != nil {
		return false, Error(http.StatusBadRequest, CodeInvalidCursor, "the cursor is not one of ours; begin without it")
	}
	return true, nil
}
