package tools

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Offer is something at another program that a Tool document could be made of.
// All of its text comes from there.
type Offer struct {
	Name         string          // the other side's
	Description  string          // of what it does
	InputSchema  json.RawMessage // nil: none was given
	OutputSchema json.RawMessage // of an MCP server's tool; nil: none was declared, or none that holds
	Digest       events.Digest   // spec.SchemaDigest, of an MCP server's tool
	Subject      string          // of a NATS service's endpoint
	Service      string          // that the endpoint belongs to
	// Hints are what the other side says about its effect. They are shown to the
	// person who imports and change nothing.
	Hints map[string]bool
	// Denied says that the server's definition does not allow it.
	Denied bool
}

// Offers asks other programs what they offer.
type Offers interface {
	// MCP lists the tools of the namespace's server of that name. ErrNoDefinition
	// when there is none, else an *Unready when it cannot be asked now.
	MCP(ctx context.Context, namespace, server string) (*spec.MCPServer, []Offer, error)
	// NATS lists the endpoints of NATS micro services.
	NATS(ctx context.Context) ([]Offer, error)
}

// Servers finds MCP servers by name, as they are defined now; ErrNoDefinition.
type Servers interface {
	MCPServer(ctx context.Context, namespace, name string) (*spec.MCPServer, events.Digest, error)
}

// Listing finds the tools of a namespace as they are defined now.
type Listing interface {
	CurrentTool(ctx context.Context, namespace, name string) (*spec.Tool, events.Digest, error) // ErrNoDefinition
	CurrentTools(ctx context.Context, namespace string) ([]ListedTool, error)
}

// ListedTool is the current version of one tool. Tool is nil when its stored
// body cannot be read.
type ListedTool struct {
	Name   string
	Digest events.Digest
	Tool   *spec.Tool
}

// Unready says why another program cannot be asked now. Nothing was sent.
type Unready struct {
	Code string
	Err  error
}

func (e *Unready) Error() string { return e.Err.Error() }
func (e *Unready) Unwrap() error { return e.Err }

// Requester sends one request on NATS and waits for the reply.
type Requester interface {
	// Request returns ErrNobodyAnswers or ErrNotConnected when nothing reached a
	// program; any other error leaves that open.
	Request(ctx context.Context, subject string, header map[string][]string, body []byte) (replyHeader map[string][]string, reply []byte, err error)
	// Gather sends one request and collects the replies of everybody who answers
	// it, until ctx ends.
	Gather(ctx context.Context, subject string) ([][]byte, error)
}

var (
	// ErrNobodyAnswers says that nobody listens on the subject.
	ErrNobodyAnswers = errors.New("nobody answers on this subject")
	// ErrNotConnected says that there is no connection, or that the request
	// cannot be sent on it.
	ErrNotConnected = errors.New("the request could not be sent")
)
