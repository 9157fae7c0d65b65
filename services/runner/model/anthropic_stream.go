package model

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2/packages/ssestream"

	"github.com/holdfast-run/holdfast/services/runner"
)

// errStalled says that a stream sent nothing for too long.
var errStalled = errors.New("the stream sent nothing for too long")

// read takes the response of a request. A stream that ends before its
// message_stop, for whatever reason, is no answer.
// giveUp ends the request, whose context is ctx.
func (a *Anthropic) read(ctx context.Context, giveUp context.CancelCauseFunc, response *http.Response, show func(runner.Piece)) (runner.Answer, error) {
	defer response.Body.Close()
	stall := cmp.Or(a.env.Stall, time.Minute)
	silent := time.AfterFunc(stall, func() { giveUp(errStalled) })
	defer silent.Stop()
	response.Body = &watched{ReadCloser: response.Body, moved: func() { silent.Reset(stall) }}

	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "application/json" {
		raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
		switch {
		case err != nil:
			return runner.Answer{}, readError(ctx, err)
		case len(raw) > maxAnswer:
			return runner.Answer{}, unreadable(fmt.Errorf("the answer is larger than %d bytes", maxAnswer))
		}
		return readMessage(string(raw), true)
	}
	stream := ssestream.NewDecoder(response)
	var answer assembly
	for !answer.done {
		if !stream.Next() {
			if errors.Is(stream.Err(), bufio.ErrTooLong) {
				return runner.Answer{}, unreadable(stream.Err())
			}
			return runner.Answer{}, readError(ctx, cmp.Or(stream.Err(), error(io.ErrUnexpectedEOF)))
		}
		event := stream.Event()
		if event.Type == "error" {
			return runner.Answer{}, eventError(event.Data)
		}
		if len(event.Data) == 0 {
			continue
		}
		piece, err := answer.take(event.Data)
		if err != nil {
			return runner.Answer{}, unreadable(err)
		}
		if show != nil && piece.Kind != "" {
			show(piece)
		}
	}
	silent.Reset(100 * time.Millisecond) // reading to the end keeps the connection
	for stream.Next() {
	}
	raw, err := answer.raw()
	if err != nil {
		return runner.Answer{}, unreadable(err)
	}
	return readMessage(raw, answer.counted)
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

func unreadable(err error) *runner.ModelError {
	return &runner.ModelError{Code: "unreadable_answer", Retry: true, Err: err}
}

// readError sorts a response that broke off.
func readError(ctx context.Context, err error) *runner.ModelError {
	if errors.Is(context.Cause(ctx), errStalled) {
		return &runner.ModelError{Code: "stalled", Retry: true, Err: errStalled}
	}
	e := modelError(errors.Join(err, ctx.Err()))
	e.Err = fmt.Errorf("the answer broke off: %w", err)
	return e
}

// permanent are the errors that the same request meets again.
var permanent = map[string]bool{
	"invalid_request_error": true, "authentication_error": true, "permission_error": true, "not_found_error": true,
	"request_too_large": true, "billing_error": true,
}

var errorName = regexp.MustCompile(`^[a-z][a-z_]{0,63}$`)

// eventError sorts an error that the provider reports inside a stream.
func eventError(data []byte) *runner.ModelError {
	var body struct {
		Error struct {
			Type string `json:"type"`
		} `json:"error"`
	}
	code := "error_event"
	if json.Unmarshal(data, &body) == nil && errorName.MatchString(body.Error.Type) {
		code = body.Error.Type
	}
	return &runner.ModelError{Code: code, Retry: !permanent[code], Err: fmt.Errorf("the provider ended the stream with %s", code)}
}
