package web

// effectChip is how the state of an effect looks, in words of people.
func effectChip(look string) Chip {
	switch look {
	case "intent":
		return Chip{"chip k-run", "s-intent", "on its way"}
	case "again":
		return Chip{"chip k-idle", "s-resume", "tried again"}
	case "awaiting":
		return Chip{"chip k-run", "s-wait", "result awaited"}
	case "held":
		return Chip{"chip k-idle", "s-stop", "held"}
	case "succeeded":
		return Chip{"chip k-ok bare", "s-ok", "happened"}
	case "failed":
		return Chip{"chip k-bad", "s-bad", "did not happen"}
	case "in_doubt":
		return Chip{"chip k-doubt", "s-doubt", "in doubt"}
	case "unknown":
		return Chip{"chip k-doubt bare", "s-doubt", "never known"}
	case "expired":
		return Chip{"chip k-idle", "s-expired", "key used up"}
	case "damaged":
		return Chip{"chip k-bad", "s-need", "damaged"}
	}
	return Chip{"chip k-idle", "s-wait", words(look)}
}
