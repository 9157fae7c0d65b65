package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// ErrBlobGone says that bytes which a message refers to were deleted.
var ErrBlobGone = errors.New("the bytes are gone")

// Blobs keeps what is too large for a message. Bytes are there before a message
// that names them is sent.
type Blobs interface {
	PutBlob(ctx context.Context, ref events.BlobRef, data []byte) error
	// Blob returns ErrBlobGone when there is no such row.
	Blob(ctx context.Context, ref events.BlobRef) ([]byte, error)
}

// fetchInput puts the input of a start that came by reference in its place. A
// reference to nothing is the run's failure: the start was accepted.
func (s *Service) fetchInput(ctx context.Context, start *Start) error {
	if start.InputRef == nil || start.Body.Input != nil {
		return nil
	}
	input, err := s.store.Blob(ctx, *start.InputRef)
	if errors.Is(err, ErrBlobGone) {
		start.Body.Input = json.RawMessage("null")
		start.Broken = &events.Problem{Code: "input_gone", Message: fmt.Sprintf(
			"the input of %d bytes was deleted before the run began; start it again", start.InputRef.Bytes)}
		return nil
	}
	start.Body.Input = input
	return err
}

// publish sends m.
func (s *Service) publish(ctx context.Context, m events.Message) error {
	m, err := s.onWire(ctx, m)
	if err != nil {
		return err
	}
	return s.bus.Publish(ctx, m)
}

// publishedAtOnce is how many messages wait for their confirmation together.
const publishedAtOnce = 256

// publishAll sends messages in their order, and stops where some cannot be sent.
func (s *Service) publishAll(ctx context.Context, all []events.Message) error {
	for part := range slices.Chunk(all, publishedAtOnce) {
		for i, m := range part {
			var err error
			if part[i], err = s.onWire(ctx, m); err != nil {
				return fmt.Errorf("publish %s: %w", m.ID, err)
			}
		}
		for i, err := range s.bus.PublishAll(ctx, part) {
			if err != nil {
				return fmt.Errorf("publish %s: %w", part[i].ID, err)
			}
		}
	}
	return nil
}

// onWire is m as it is sent. A start whose input is too large for a message goes by
// reference, and the input is stored first.
func (s *Service) onWire(ctx context.Context, m events.Message) (events.Message, error) {
	if m.Type == events.TypeStartRun && len(m.Data) > events.MaxInline {
		return s.lighten(ctx, m)
	}
	if m.Type == events.TypeChildCompleted && len(m.Data) > maxEndBytes {
		return s.lightenEnd(ctx, m)
	}
	return m, nil
}

// maxEndBytes is from where a child's end names its output instead of carrying
// it: half of what a message may have by default. A release that knows no
// reference reads what is smaller.
const maxEndBytes = 512 << 10

func (s *Service) lightenEnd(ctx context.Context, m events.Message) (events.Message, error) {
	var end events.ChildCompleted
	if err := events.Decode(m, &end); err != nil {
		return m, err
	}
	ref := events.BlobRef{Scope: events.RunScope(end.Child), Digest: events.DigestOf(end.Output), Bytes: int64(len(end.Output))}
	if err := s.store.PutBlob(ctx, ref, end.Output); err != nil {
		return m, err
	}
	end.Output, end.OutputRef = nil, &ref
	m.Data = mustJSON(end)
	return m, nil
}

// fetchOutput puts a child's output that came by reference in its place. Bytes
// that are gone make the item fail: the child was deleted meanwhile.
func (s *Service) fetchOutput(ctx context.Context, end *events.ChildCompleted) error {
	if end == nil || end.OutputRef == nil {
		return nil
	}
	output, err := s.store.Blob(ctx, *end.OutputRef)
	if errors.Is(err, ErrBlobGone) {
		end.Status, end.OutputRef = events.StatusFailed, nil
		end.Error = &events.Problem{Code: "output_gone", Message: fmt.Sprintf("the output of %s was deleted before it was read", end.Child)}
		return nil
	}
	if err != nil {
		return err
	}
	end.Output, end.OutputRef = output, nil
	return nil
}

func (s *Service) lighten(ctx context.Context, m events.Message) (events.Message, error) {
	var start events.StartRun
	if err := events.Decode(m, &start); err != nil {
		return m, err
	}
	if len(start.Input) <= events.MaxInline {
		return m, nil
	}
	ref := events.BlobRef{Scope: events.RunScope(start.RunID), Digest: events.DigestOf(start.Input), Bytes: int64(len(start.Input))}
	if err := s.store.PutBlob(ctx, ref, start.Input); err != nil {
		return m, err
	}
	start.Input, start.InputRef = nil, &ref
	m.Data = mustJSON(start)
	return m, nil
}
