package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// Exit codes of the commands that speak to a server. They are a promise to
// scripts; exitHelp says so in every group's help.
const (
	exitOK          = 0
	exitFailure     = 1 // the server refused, or the run that was waited for did not complete
	exitUsage       = 2 // the command line itself is wrong; nothing was sent
	exitNotFound    = 3
	exitDenied      = 4 // no token, an unknown one, or a role that may not
	exitConflict    = 5 // somebody or something else came first
	exitUnavailable = 6 // no answer, or not now; nothing was lost by asking
	// exitStillRunning: the wait for a run is over and the run is not.
	exitStillRunning = 7
)

const exitHelp = `
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 not allowed,
5 conflict (somebody decided first), 6 server not available (safe to repeat),
7 the run is still running.

Connection: --server (HOLDFAST_SERVER), --token (HOLDFAST_TOKEN),
--token-file (HOLDFAST_TOKEN_FILE), --namespace (HOLDFAST_NAMESPACE).`

// exitError is an error with the code that the process ends with.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usage marks an error of the command line.
func usage(err error) error { return &exitError{exitUsage, err} }

// exitCode is the code that the process ends with after err. Of several joined
// errors the first counts.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	switch client.StatusOf(err) {
	case http.StatusNotFound, http.StatusGone:
		return exitNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitDenied
	case http.StatusConflict:
		return exitConflict
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return exitUnavailable
	}
	if errors.Is(err, client.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
		return exitUnavailable
	}
	return exitFailure
}

// advise adds to err what to try next. look is where the thing that was not
// found would be listed: "holdfast runs list".
func advise(err error, look string) error {
	if err == nil {
		return nil
	}
	switch {
	case errors.Is(err, client.ErrUnreachable):
		return fmt.Errorf("%w; start one with \"holdfast dev\", or name another with --server or HOLDFAST_SERVER", err)
	case client.StatusOf(err) == http.StatusUnauthorized:
		return fmt.Errorf("%w; pass a token with --token-file or HOLDFAST_TOKEN", err)
	case client.StatusOf(err) == http.StatusForbidden:
		return fmt.Errorf("%w; see the roles with \"holdfast tokens list\"", err)
	case client.StatusOf(err) == http.StatusNotFound && look != "":
		return fmt.Errorf("%w; look with %q", err, look)
	}
	return err
}
