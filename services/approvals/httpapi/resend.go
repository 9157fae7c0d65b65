package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Codes of the 409 answers.
const (
	codeMayDouble = "may_double"
	codeNotResent = "not_resent"
)

type resendInput struct {
	ID   string `path:"id"`
	Body struct {
		MayDouble bool `json:"may_double,omitempty" doc:"confirms that people may read it twice; needed for a notice that is unknown"`
	}
}

type resendOutput struct{ Body Notice }

func registerResend(d *door.Door, a api) {
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/notices/{id}/resend", Tags: []string{"approvals"}, OperationID: "resend-notice",
		Summary: "Send a notice again that is failed or unknown",
		Description: "An unknown notice may have been shown; it is sent again only with may_double. " +
			"One that is on its way already is answered as it is.",
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable},
	}, authn.Operator, a.resend)
}

func (a api) resend(ctx context.Context, in *resendInput) (*resendOutput, error) {
	who, _ := authn.FromContext(ctx)
	missing := door.NotFound("there is no notice %.130q here; see them with GET /v1/notices", in.ID)
	if !events.ValidToken(in.ID) {
		return nil, missing
	}
	n, err := a.service.Resend(ctx, approvals.Resend{NoticeID: events.NoticeID(in.ID), Namespace: who.Namespace, By: who.Name, MayDouble: in.Body.MayDouble})
	if e, ok := errors.AsType[*approvals.NotResent](err); ok {
		code := codeNotResent
		if e.Notice.State == approvals.NoticeUnknown {
			code = codeMayDouble
		}
		return nil, door.Error(http.StatusConflict, code, e.Error())
	}
	if errors.Is(err, approvals.ErrNotFound) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	return &resendOutput{Body: showNotice(n)}, nil
}

// resendNotice is the button of the page System: it sends a notice again and leads back
// there. A notice that may have been shown needs the button that says so.
func (p pages) resendNotice(w http.ResponseWriter, r *http.Request) error {
	form, err := door.Form(r)
	if err != nil {
		return err
	}
	in := resendInput{ID: r.PathValue("id")}
	in.Body.MayDouble = form.Get("may_double") == "yes"
	if _, err := p.resend(r.Context(), &in); err != nil {
		return err
	}
	http.Redirect(w, r, "/ui/system?resent=yes#notices", http.StatusSeeOther)
	return nil
}
