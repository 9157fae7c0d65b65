package console

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// ResourceName is the place of a definition in its namespace.
type ResourceName struct{ Kind, Name string }

// Resource is the current version of a definition.
type Resource struct {
	ResourceName
	Namespace string
	Digest    events.Digest
	Version   int
	Body      json.RawMessage // canonical JSON; empty in lists
	UpdatedAt time.Time
}

// Document is one definition of a set, ready to be stored.
type Document struct {
	ResourceName
	Digest events.Digest
	Body   json.RawMessage
}

// Need is a definition that another one names.
type Need struct {
	ResourceName
	File  string
	Line  int // where the document that names it begins
	Field string
	By    ResourceName // who names it
}

// Set is what one apply brings. All of it is for one namespace.
type Set struct {
	Namespace string
	Principal string
	Documents []Document
	Needs     []Need // that the set itself does not hold
}

// Applied says what became of one document of a set.
type Applied struct {
	ResourceName
	Namespace string
	Digest    events.Digest
	Version   int
	Changed   bool // false: the digest was current already
	// Warnings are what is valid and may not be what was meant.
	Warnings []*spec.Error
}
