package scriptmodel

import "net/http"

// dialect is one provider's API: how a request and a history are written there,
// which rules they keep, and how an answer looks.
type dialect interface {
	// admit looks at the headers; status 0 lets the request in.
	admit(h http.Header) (status int, problem string)
	// decode reads a body. An error is a sentence for the caller.
	decode(body []byte) (Request, error)
	// validate holds the rules that one request can break by itself.
	validate(Request) error
	// given are the blocks of an answer as a history repeats them.
	given(b built) []Block
	body(b built) []byte
	send(s *streamWriter, b built) error
	// overloaded ends a stream with an error.
	overloaded(s *streamWriter) error
	// refuse answers with an error; an empty message means something general.
	refuse(w http.ResponseWriter, status int, message string)
}

var dialects = map[string]dialect{"/v1/messages": messagesAPI{}, "/v1/chat/completions": chatAPI{}, "/v1/responses": responsesAPI{}}

// messagesAPI is Anthropic's.
type messagesAPI struct{}

func (messagesAPI) admit(h http.Header) (int, string) {
	switch {
	case h.Get("x-api-key") == "" && h.Get("Authorization") == "":
		return http.StatusUnauthorized, "x-api-key header is required"
	case h.Get("anthropic-version") == "":
		return http.StatusBadRequest, "anthropic-version: header is required"
	}
	return 0, ""
}

func (messagesAPI) decode(body []byte) (Request, error) { return decode(body) }
func (messagesAPI) validate(r Request) error            { return validate(r) }
func (messagesAPI) body(b built) []byte                 { return b.body() }
func (messagesAPI) send(s *streamWriter, b built) error { return s.send(b) }
func (messagesAPI) given(b built) []Block               { return decodeBlocks(b.blocks) }
func (messagesAPI) overloaded(s *streamWriter) error {
	return s.event("error", obj{"type": "error", "error": obj{"type": "overloaded_error", "message": "Overloaded"}})
}

func (messagesAPI) refuse(w http.ResponseWriter, status int, message string) {
	if message == "" {
		message = http.StatusText(status)
	}
	writeError(w, status, errorType(status), message)
}

// errorType is the provider's name for a status.
// Source: "Errors" of the provider's reference.
func errorType(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "invalid_request_error"
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	case 529:
		return "overloaded_error"
	}
	return "api_error"
}

func writeError(w http.ResponseWriter, status int, kind, message string) {
	if message == "" {
		message = "Overloaded"
	}
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(obj{
		"type":       "error",
		"error":      obj{"type": kind, "message": message},
		"request_id": w.Header().Get("request-id"),
	}))
}
