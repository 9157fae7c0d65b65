package model

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2/packages/ssestream"

	"github.com/holdfast-run/holdfast/services/runner"
)

// errStalled says that a stream sent nothing for too long.
var errStalled = errors.New("the stream sent nothing for too long")

// stream puts the events of one answer together to the JSON text that the same
// request without a stream would have answered.
type stream interface {
	// event takes one and returns what of it can be shown. A *runner.ModelError
	// is the provider's; any other error means that the answer cannot be read.
	event(kind string, data []byte) (runner.Piece, error)
	// whole says whether an end of the stream leaves a whole answer, and last
	// whether nothing can follow any more.
	whole() (whole, last bool)
	raw() (string, error)
}

// read takes the response of a request: the answer's JSON text, and whether it
// came as a. A stream that ends before it is whole, for whatever reason, is no
// answer. giveUp ends the request, whose context is ctx.
func (e Env) read(ctx context.Context, giveUp context.CancelCauseFunc, response *http.Response, show func(runner.Piece), a stream) (raw string, streamed bool, err error) {
	defer response.Body.Close()
	begun, seen := false, 0
	defer func() {
		if e, ok := errors.AsType[*runner.ModelError](err); ok && begun {
			e.Begun, e.Seen = true, seen
		}
	}()
	stall := cmp.Or(e.Stall, time.Minute)
	silent := time.AfterFunc(stall, func() { giveUp(errStalled) })
	defer silent.Stop()
	response.Body = &watched{ReadCloser: response.Body, moved: func() { silent.Reset(stall) }}

	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "application/json" {
		raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
		begun, seen = true, len(raw)
		switch {
		case err != nil:
			return "", false, readError(ctx, err)
		case len(raw) > maxAnswer:
			return "", false, unreadable(fmt.Errorf("the answer is larger than %d bytes", maxAnswer))
		}
		return string(raw), false, nil
	}
	in := ssestream.NewDecoder(response)
	size := 0
	for {
		whole, last := a.whole()
		if last {
			break
		}
		if !in.Next() {
			if errors.Is(in.Err(), bufio.ErrTooLong) {
				return "", true, unreadable(in.Err())
			}
			if in.Err() == nil && whole {
				break
			}
			return "", true, readError(ctx, cmp.Or(in.Err(), error(io.ErrUnexpectedEOF)))
		}
		event := in.Event()
		if len(event.Data) == 0 && event.Type != "error" {
			continue
		}
		if size += len(event.Data); size > maxAnswer {
			return "", true, unreadable(fmt.Errorf("the answer is larger than %d bytes", maxAnswer))
		}
		piece, err := a.event(event.Type, event.Data)
		if known, ok := errors.AsType[*runner.ModelError](err); ok {
			return "", true, known
		}
		if err != nil {
			return "", true, unreadable(err)
		}
		begun, seen = true, seen+len(piece.Text)
		if show != nil && piece.Kind != "" {
			show(piece)
		}
	}
	silent.Reset(100 * time.Millisecond) // reading to the end keeps the connection
	for in.Next() {
	}
	raw, err = a.raw()
	if err != nil {
		return "", true, unreadable(err)
	}
	return raw, true, nil
}

// watched tells of every read that brought something.
type watched struct {
	io.ReadCloser
	moved func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.moved()
	}
	return n, err
}

// readError sorts a response that broke off.
func readError(ctx context.Context, err error) *runner.ModelError {
	if errors.Is(context.Cause(ctx), errStalled) {
		return &runner.ModelError{Code: "stalled", Retry: true, Err: errStalled}
	}
	e := requestError(ctx, errors.Join(err, ctx.Err()), nil)
	e.Err = fmt.Errorf("the answer broke off: %w", err)
	return e
}
