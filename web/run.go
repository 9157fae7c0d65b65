package web

// StatusChip is how the status of a run looks.
func StatusChip(status string) Chip { return chipOf(status) }

// callChip is how the state of a call or of its effect looks.
func callChip(state string) Chip {
	switch state {
	case "succeeded":
		return Chip{"chip k-ok bare", "s-ok", "succeeded"}
	case "failed":
		return Chip{"chip k-bad", "s-bad", "failed"}
	case "unknown":
		return Chip{"chip k-doubt", "s-doubt", "unknown"}
	case "intent":
		return Chip{"chip k-run", "s-run", "under way"}
	case "asked":
		return Chip{"chip k-you", "s-you", "waits for a person"}
	case "open":
		return Chip{"chip k-idle", "s-wait", "open"}
	case "refused":
		return Chip{"chip k-idle", "s-cancel", "not made"}
	case "mismatch":
		return Chip{"chip k-bad", "s-need", "same key, other arguments"}
	case "expired", "revoked":
		return Chip{"chip k-idle", "s-expired", state}
	}
	return Chip{"chip k-idle", "s-wait", words(state)}
}

// clip is the beginning of a text that stands beside others.
func clip(s string) string { return fit(s, 40) }
