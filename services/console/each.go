package console

import (
	"context"
	"errors"
)

// FindAll lists every run that fits, the newest first, or says that there are more than
// most. Text is as in FindText.
func (s *Service) FindAll(ctx context.Context, f RunFilter, text string, most int) (runs []Run, more bool, err error) {
	for f.Limit = bulkPage; ; {
		find := func() (Found, error) { return s.Find(ctx, f) }
		if text != "" {
			find = func() (Found, error) { return s.FindText(ctx, f, text) }
		}
		found, err := find()
		if err != nil {
			return nil, false, err
		}
		runs = append(runs, found.Runs...)
		if len(runs) > most {
			return runs[:most], true, nil
		}
		if found.Next == "" {
			return runs, false, nil
		}
		f.Before, f.NotBefore = found.Next, ""
	}
}

// OrderEach gives one order to runs that were just read and says of each what became of
// it. A repeat under the same key orders nothing twice.
func (s *Service) OrderEach(ctx context.Context, namespace, principal string, b Bulk, runs []Run) ([]BulkRun, error) {
	out := make([]BulkRun, len(runs))
	for i, r := range runs {
		out[i].Run = r
	}
	defer s.relay.Kick()
	for from := 0; from < len(out); from += bulkPage {
		page := out[from:min(from+bulkPage, len(out))]
		if b.Kind != OrderRetry {
			if err := s.orderPage(ctx, namespace, principal, b, page); err != nil {
				return out, err
			}
			continue
		}
		for i := range page {
			c, replayed, err := s.addFork(ctx, namespace, principal, b.Key+"/"+string(page[i].ID), ForkOrder{From: page[i].ID, Retry: true, Reason: b.Reason})
			switch {
			case errors.Is(err, ErrNotFailed), errors.Is(err, ErrNotFound), errors.Is(err, ErrFlow), errors.Is(err, ErrProgram):
			case isDeleted(err):
			case err != nil:
				return out, err
			}
			if page[i].Refused = err; err == nil {
				page[i].Command, page[i].Retry, page[i].Replayed = c.ID, c.RunID, replayed
			}
		}
	}
	return out, nil
}

func isDeleted(err error) bool {
	_, gone := errors.AsType[*DeletedError](err)
	return gone
}
