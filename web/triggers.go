package web

// triggerChip is how a delivery's outcome, a schedule's state or a fire's looks.
func triggerChip(state string) Chip {
	switch state {
	case "accepted", "started":
		return Chip{"chip k-ok", "s-ok", state}
	case "active":
		return Chip{"chip k-ok bare", "s-ok", state}
	case "signalled":
		return Chip{"chip k-ok", "s-resume", state}
	case "duplicate":
		return Chip{"chip k-idle", "s-swap", state}
	case "filtered":
		return Chip{"chip k-idle", "s-queue", state}
	case "held", "paused":
		return Chip{"chip k-idle", "s-pause", state}
	case "buffered":
		return Chip{"chip k-idle", "s-wait", "waits"}
	case "skipped":
		return Chip{"chip k-idle", "s-cancel", state}
	case "rejected":
		return Chip{"chip k-bad", "s-bad", state}
	case "broken":
		return Chip{"chip k-bad", "s-need", "never fires"}
	}
	return Chip{"chip k-idle", "s-wait", words(state)}
}
