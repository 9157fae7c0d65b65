package e2e

import "testing"

// TestServices shares one deployment among everything that disturbs nobody.
func TestServices(t *testing.T) {
	t.Parallel()
	d := deploy(t, fresh(t))
	d.queuedUntilARunnerComes(t)
	// First, while the others wait for their turn: it takes longest.
	t.Run("in a browser", func(t *testing.T) { inABrowser(t, d) })
	for name, prove := range map[string]func(*testing.T, *deployment){
		"a signed webhook starts one run":              webhookStartsOneRun,
		"the API starts one run":                       apiStartsOneRun,
		"a schedule starts one run":                    scheduleStartsOneRun,
		"a NATS message starts one run":                messageStartsOneRun,
		"twenty posts of one delivery are one run":     twentyDeliveries,
		"twenty posts with one key are one run":        twentyKeys,
		"a start waits for the run's end":              startWaitsForTheEnd,
		"a start streams the run":                      startStreamsTheRun,
		"the end of a run is posted to its callback":   endIsPosted,
		"a webhook ends another run's wait":            signalEndsAWait,
		"a run asks a person, starts a run and sleeps": runAsksStartsAndSleeps,
		"an output that is data is data everywhere":    outputIsData,
		"a large input arrives whole":                  largeInputArrivesWhole,
		"C10 results of 300 MB stay out of memory":     hugeResults,
		"a running run keeps the definitions it has":   runKeepsItsDefinitions,
		"a name means another agent in each namespace": namespacesAreApart,
		"apply says where a field is wrong":            applyNamesThePlace,
		"bad input is refused with what and where":     badInputIsRefused,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prove(t, d)
		})
	}
}

// inABrowser is what people do on pages, one after the other: a browser takes most of a
// small machine.
func inABrowser(t *testing.T, d *deployment) {
	for name, prove := range map[string]func(*testing.T, *deployment){
		"a person follows a run":     personFollowsARun,
		"a person decides":           personDecides,
		"a person settles and stops": personSettles,
		"a person looks around":      personLooksAround,
		"a person reads a long run":  personReadsALongRun,
		"pages follow what happens":  pagesFollow,
	} {
		t.Run(name, func(t *testing.T) { prove(t, d) })
	}
}
