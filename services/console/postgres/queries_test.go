package postgres

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	full, _ := listRuns(console.RunFilter{Namespace: "n", Kind: "agent", Name: "a", Statuses: []string{"queued"},
		Labels: map[string]string{"a": "b"}, TriggerKind: "webhook", TriggerName: "w", From: time.Now(), To: time.Now(), MinCost: 1, IDPart: "0198c2aa", Words: []string{"x"},
		IDs: []events.RunID{"r"}, Parent: "p", Before: "x", NotBefore: "a", Limit: 1})
	nth, _ := nthRun(console.RunFilter{Namespace: "n", Statuses: []string{"running", "waiting"}}, 10)
	plain, _ := listRuns(console.RunFilter{Namespace: "n", Limit: 1})
	pool := pgtest.New(t).Open(t, "holdfast_console")
	if err := pg.PrepareAll(t.Context(), pool, map[string]string{
		"getRun": getRun, "callbackOfRun": callbackOfRun, "editsOfRun": editsOfRun, "knownOfRun": knownOfRun, "artifactsOfRun": artifactsOfRun, "listRuns full": full, "listRuns plain": plain, "nthRun": nth, "pendingOfRuns": pendingOfRuns, "childrenOfRuns": childrenOfRuns, "approvalsOfRuns": approvalsOfRuns, "heldOfRuns": heldOfRuns, "delayedOfRuns": delayedOfRuns, "deadlinesOfRuns": deadlinesOfRuns,
		"openByStatus": openByStatus, "startsUntaken": startsUntaken, "approvalsOpen": approvalsOpen, "effectsSince": effectsSince, "effectsUnsure": effectsUnsure, "costSince": costSince, "headOfRun": headOfRun, "eventsOfRun": eventsOfRun,
		"pendingOfRun": pendingOfRun, "behindCall": behindCall, "behindModel": behindModel, "heldOfRun": heldOfRun, "delayedOfRun": delayedOfRun, "placesOfRun": placesOfRun, "concurrencyKeys": concurrencyKeys, "standingStops": standingStops, "approvalsOfRun": approvalsOfRun, "workers": workers, "databaseTime": databaseTime, "limitsOfRun": limitsOfRun, "stepsOfRun": stepsOfRun, "pinnedBody": pinnedBody, "poolsOfRun": poolsOfRun,
		"commandByKey": commandByKey, "insertCommand": insertCommand, "owedCommands": owedCommands, "announcedCommands": announcedCommands, "landedCommands": landedCommands,
		"insertToken": insertToken, "listTokens": listTokens, "revokeToken": revokeToken,
		"listActs": listActs, "sweepAudit": sweepAudit, "lockName": lockName, "tokenHasName": tokenHasName, "personHasName": personHasName, "sweepSessions": sweepSessions, "sweepSignIns": sweepSignIns, "insertSession": insertSession,
		"finishSignIn": finishSignIn, "turnSession": turnSession, "listSessions": listSessions, "revokeSession": revokeSession,
		"missingNeeds": missingNeeds, "insertVersion": insertVersion, "setCurrent": setCurrent, "currentVersion": currentVersion,
		"startProgram": startProgram, "programByKey": programByKey, "programStatus": programStatus, "loadCheckpoint": loadCheckpoint,
		"saveCheckpoint": saveCheckpoint, "savedByKey": savedByKey, "endProgram": endProgram, "eventsOfProgram": eventsOfProgram, "isProgram": isProgram,
		"firstRow": firstRow, "movesOfRun": movesOfRun, "movedOfRun": movedOfRun, "answersOver": answersOver, "failedOver": failedOver, "versionsOf": versionsOf, "currentOf": currentOf,
		"retryOf": retryOf, "origin": origin, "insertFork": insertFork, "pastEffects": pastEffects, "forksOf": forksOf, "pastTurns": pastTurns, "timelineOfRun": timelineOfRun, "saidOfRun": saidOfRun, "askedByRun": askedByRun, "childrenOfRun": childrenOfRun, "childCounts": childCounts, "stepRows": stepRows, "toolsOfRun": toolsOfRun, "pastResults": pastResults, "forkOf": forkOf,
		"placeTurn": placeTurn, "listener": listener, "unreadMessages": unreadMessages, "lastMessage": lastMessage, "insertMessage": insertMessage, "lastEvents": lastEvents, "shownEvents": shownEvents, "firstEvent": firstEvent, "runEffects": runEffects, "controlOfRun": controlOfRun, "newestMessages": newestMessages,
		"durability": durability, "listResources": listResources, "getResource": getResource, "definedOfKind": definedOfKind, "mentionsOfName": mentionsOfName, "kindCounts": kindCounts, "changesOfName": changesOfName, "activities": activities, "poolPauses": poolPauses, "rejections": rejections, "lostNotices": lostNotices, "cost by agent": costQuery("agent", "key"), "cost by flow": costQuery("flow", "key"), "cost by model": costQuery("model", "key"), "cost by trigger": costQuery("trigger", "key"), "cost by day": costQuery("day", "key"), "cost by label": costQuery("label:a", "key"),
	}); err != nil {
		t.Error(err)
	}
}
