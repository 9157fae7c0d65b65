package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/console"
)

// Session is somebody who is signed in with a browser.
type Session struct {
	ID         string     `json:"id"`
	Name       string     `json:"name" doc:"the principal that commands and decisions record"`
	Namespace  string     `json:"namespace" doc:"in which it acts now"`
	Role       string     `json:"role" enum:"viewer,operator,approver,admin" doc:"as which it acts now"`
	Grants     []string   `json:"grants" doc:"what the person may turn to: NAMESPACE/ROLE"`
	Groups     []string   `json:"groups,omitempty" doc:"for rules about who may decide"`
	TokenID    string     `json:"token_id,omitempty" doc:"the token that it was begun with; absent for a person"`
	Issuer     string     `json:"issuer,omitempty" doc:"the provider that named the person"`
	Subject    string     `json:"subject,omitempty" doc:"the provider's own name of the person"`
	UserAgent  string     `json:"user_agent,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`
	LastSeenAt time.Time  `json:"last_seen_at" doc:"to a minute"`
	EndsAt     time.Time  `json:"ends_at" doc:"unless it is used"`
	ExpiresAt  time.Time  `json:"expires_at" doc:"at the latest"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	RevokedBy  string     `json:"revoked_by,omitempty"`
}

func wireSession(s console.Session) Session {
	out := Session{ID: s.ID, Name: s.Name, Namespace: s.Namespace, Role: s.Role, Grants: []string{}, Groups: s.Groups, TokenID: s.TokenID, Issuer: s.Issuer, Subject: s.Subject, UserAgent: s.UserAgent,
		CreatedAt: s.CreatedAt, LastSeenAt: s.LastSeenAt, EndsAt: s.EndsAt, ExpiresAt: s.ExpiresAt, RevokedAt: orNil(s.RevokedAt), RevokedBy: s.RevokedBy}
	for _, g := range s.Grants {
		out.Grants = append(out.Grants, g.Namespace+"/"+g.Role)
	}
	return out
}

type listSessionsOutput struct{ Body door.Page[Session] }

type sessionOutput struct{ Body Session }

type sessionPath struct {
	ID string `path:"id" pattern:"^[0-9a-f-]{36}$"`
}

type sessionCursor struct {
	After string `json:"a"`
}

func (a *api) sessions() {
	door.Register(a.door, huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: "/v1/sessions", Summary: "List who is signed in with a browser and may act in this namespace", Tags: []string{"tokens"},
	}, authn.Admin, func(ctx context.Context, in *door.PageInput) (*listSessionsOutput, error) {
		p, _ := authn.FromContext(ctx)
		var at sessionCursor
		if _, err := door.DecodeCursor(in.Cursor, &at); err != nil {
			return nil, err
		}
		found, err := a.console.Sessions(ctx, console.SessionFilter{Namespace: p.Namespace, After: at.After, Limit: in.Limit + 1})
		if err != nil {
			return nil, err
		}
		return &listSessionsOutput{door.PageOf(found, in.Limit, func(s console.Session) any { return sessionCursor{s.ID} }, wireSession)}, nil
	})

	door.Register(a.door, huma.Operation{
		OperationID: "revoke-session", Method: http.MethodDelete, Path: "/v1/sessions/{id}", Summary: "End a session", Tags: []string{"tokens"},
		Description: "It stops working within two seconds everywhere. Repeating is harmless. Who may sign in anew is up to the provider and the mapping.", DefaultStatus: http.StatusOK,
	}, authn.Admin, func(ctx context.Context, in *sessionPath) (*sessionOutput, error) {
		p, _ := authn.FromContext(ctx)
		s, err := a.console.RevokeSession(ctx, p.Namespace, in.ID, p.Name, "")
		if err != nil {
			return nil, problem(err, "session %s", in.ID)
		}
		return &sessionOutput{wireSession(s)}, nil
	})
}
