package model_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/holdfast-run/holdfast/services/runner"
)

// A stream that breaks off has begun, with what had come of it; a refusal has not.
func TestCaseH04_TellsWhatTheProviderHadBegun(t *testing.T) {
	t.Parallel()
	broken := []byte("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"twelve bytes\"}}\n\n")
	_, err := adapter().Answer(t.Context(), request(t, serving(t, "text/event-stream", func() []byte { return broken })))
	if e, ok := errors.AsType[*runner.ModelError](err); !ok || !e.Begun || e.Seen != len("twelve bytes") {
		t.Errorf("a stream that broke off: %+v", err)
	}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	t.Cleanup(refusing.Close)
	_, err = adapter().Answer(t.Context(), request(t, refusing.URL))
	if e, ok := errors.AsType[*runner.ModelError](err); !ok || e.Begun || e.Unknown {
		t.Errorf("a refusal: %+v", err)
	}
}
