package catalog

import "errors"

var (
	// ErrNotFound says that there is no such name or version in the namespace.
	ErrNotFound = errors.New("not found")
	// ErrCorrupt says that the stored body of a version does not have the
	// version's digest. Trying again does not help.
	ErrCorrupt = errors.New("stored definition does not match its digest")
)
