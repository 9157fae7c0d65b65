package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/blob"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// PutBlob implements runner.Blobs.
func (s *Store) PutBlob(ctx context.Context, ref events.BlobRef, data []byte) error {
	return blob.Put(ctx, s.pool, ref, data)
}

// Blob implements runner.Blobs.
func (s *Store) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	data, err := blob.Get(ctx, s.pool, ref)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", runner.ErrBlobGone, err)
	}
	return data, err
}
