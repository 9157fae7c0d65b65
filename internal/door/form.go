package door

import (
	"errors"
	"net/http"
	"net/url"
)

// Form reads what a page of ours posted. An error is one that a handler returns as it is:
// 413 for what is too large, 400 for what no browser sends.
func Form(r *http.Request) (url.Values, error) {
	if err := r.ParseForm(); err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return nil, err
		}
		return nil, Error(http.StatusBadRequest, CodeBadRequest, "this is not a form that a browser sends")
	}
	return r.PostForm, nil
}
