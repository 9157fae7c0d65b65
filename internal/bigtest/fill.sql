-- What a year of use leaves behind, made by the database itself. {{runs}}, {{rows}} and
-- {{long}} are how many runs, rows of journals, and rows of the longest one. Every value
-- follows from the number of the run, so two fills are alike.
CREATE TEMP TABLE big AS
SELECT i, root, at,
       lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS ms, md5('run/' || i) AS hex,
       (('x' || substr(md5('dice/' || i), 1, 7))::bit(28)::int % 1000) AS dice,
       kind, i % 100 AS place
  FROM (SELECT i, CASE WHEN i % 100 BETWEEN 1 AND 30 THEN i - i % 100 END AS root,
               clock_timestamp() - interval '60 days' * ({{runs}} - CASE WHEN i % 100 BETWEEN 1 AND 30 THEN i - i % 100 ELSE i END) / {{runs}} - interval '20 s' AS at,
               CASE WHEN i % 100 = 0 THEN 'flow' ELSE 'agent' END AS kind
          FROM generate_series(0, {{runs}} - 1) i) n;
--
CREATE TEMP TABLE bigruns AS
SELECT b.i, b.root, b.kind, b.at, b.dice, b.place,
       substr(b.ms, 1, 8) || '-' || substr(b.ms, 9, 4) || '-7' || substr(b.hex, 1, 3) || '-8' || substr(b.hex, 4, 3) || '-' || substr(b.hex, 7, 12) AS run_id,
       CASE WHEN b.kind = 'flow' THEN 'nightly-competitors' WHEN b.root IS NOT NULL THEN 'competitor-check'
            ELSE (ARRAY['competitor-check', 'refund-triage', 'ticket-router', 'lead-enrich', 'stock-digest', 'newsletter-draft', 'catalog-sync', 'return-labels'])[1 + b.dice % 8] END AS name,
       -- The newest are open, and a few old ones still are.
       CASE WHEN b.i < {{runs}} - {{runs}} / 20 AND b.dice >= 10 OR b.i = {{runs}} / 2 + 51 THEN
                 CASE WHEN b.dice < 830 THEN 'completed' WHEN b.dice < 920 THEN 'failed' WHEN b.dice < 970 THEN 'cancelled' ELSE 'expired' END
            ELSE CASE WHEN b.dice % 10 < 2 THEN 'running' WHEN b.dice % 10 < 7 THEN 'waiting' WHEN b.dice % 10 = 7 THEN 'paused' WHEN b.dice % 10 = 8 THEN 'needs_attention' ELSE 'cancelling' END END AS status,
       CASE WHEN b.i = {{runs}} / 2 + 51 THEN {{long}} ELSE 3 + ((('x' || substr(md5('rows/' || b.i), 1, 7))::bit(28)::bigint % 1000) * 2 * greatest(0, ({{rows}} - {{long}}) / {{runs}} - 3) / 1000)::int END AS rows,
       (ARRAY['webhook', 'webhook', 'api', 'schedule', 'event'])[1 + b.i % 5] AS source,
       (ARRAY['stripe', 'helpdesk', 'maria', 'hourly-stock', 'orders'])[1 + b.i % 5] AS source_name
  FROM big b;
--
CREATE UNIQUE INDEX ON bigruns (i);
--
ANALYZE bigruns;
--
INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, waiting, input, output, error, labels, trigger, principal, parent_run_id, parent_item, model_calls, tool_calls, tokens, cost_micro_usd,
       claim_worker, claim_epoch, claim_at, accepted_at, created_at, updated_at, ended_at, paused_for)
SELECT r.run_id, 'default', r.kind, r.name, 'sha256:' || repeat('a', 64), r.status, r.rows,
       CASE r.status WHEN 'waiting' THEN 'tool fetch_page' WHEN 'paused' THEN 'paused: daily token cap of 500000 reached' WHEN 'needs_attention' THEN '3 takeovers without progress' ELSE '' END,
       json_build_object('shop', 'shop-' || r.i % 40, 'url', 'https://shop.example/' || r.i), CASE r.status WHEN 'completed' THEN to_json('41 prices read, 2 changed.'::text) END,
       CASE WHEN r.status IN ('failed', 'needs_attention') THEN json_build_object('code', 'tool_failed', 'message', 'the site answered 403 three times') END,
       jsonb_build_object('customer', (r.i % 500)::text, 'shop', 'shop-' || r.i % 40),
       CASE WHEN r.root IS NULL THEN json_build_object('kind', r.source, 'name', r.source_name, 'id', 'd-' || r.i) ELSE json_build_object('kind', 'child', 'name', 'nightly-competitors', 'id', 'check/' || r.place) END,
       r.source_name, p.run_id, CASE WHEN r.root IS NOT NULL THEN 'check/' || r.place END,
       r.rows / 2, r.rows / 2, r.rows::bigint * 700, (r.rows::bigint * (900 + r.dice) * r.dice) / 50,
       CASE WHEN r.status = 'running' THEN 'runner-1' END, 1, CASE WHEN r.status = 'running' THEN clock_timestamp() END,
       r.at, r.at, r.at + interval '1 s' * least(r.rows, 86000), CASE WHEN r.status IN ('completed', 'failed', 'cancelled', 'expired') THEN r.at + interval '1 s' * least(r.rows, 86000) END, CASE WHEN r.status = 'paused' THEN 'pool:daily-' || r.i % 20 ELSE '' END
  FROM bigruns r LEFT JOIN bigruns p ON p.i = r.root;
--
INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
SELECT r.run_id, n,
       CASE WHEN n = 1 THEN 'run_started' WHEN n = r.rows AND r.status IN ('completed', 'failed', 'cancelled', 'expired') THEN 'run_' || r.status WHEN n % 5000 = 4999 THEN 'context_compacted' WHEN n % 2 = 0 THEN 'model_answered' ELSE 'tool_completed' END,
       CASE WHEN n = r.rows THEN r.status ELSE 'running' END,
       CASE WHEN n = 1 THEN 'start:' || r.run_id ELSE 'c:' || n END, n = 1 OR n % 2 = 1 AND NOT (n = r.rows AND r.status IN ('completed', 'failed', 'cancelled', 'expired')), 'runner-' || n % 3, r.at + interval '1 s' * least(n, 86000),
       CASE WHEN n = 1 THEN json_build_object('ref', json_build_object('kind', r.kind, 'name', r.name, 'digest', 'sha256:' || repeat('a', 64)), 'tools', json_build_array(json_build_object('kind', 'tool', 'name', 'fetch_page', 'digest', 'sha256:' || repeat('b', 64))),
                 'policies', 'sha256:' || repeat('c', 64), 'input', json_build_object('shop', 'shop-' || r.i % 40), 'trigger', json_build_object('kind', r.source, 'name', r.source_name), 'accepted_at', r.at)
            WHEN n = r.rows AND r.status = 'completed' THEN json_build_object('output', '41 prices read, 2 changed.')
            WHEN n = r.rows AND r.status IN ('failed', 'expired') THEN json_build_object('error', json_build_object('code', 'tool_failed', 'message', 'the site answered 403 three times'))
            WHEN n = r.rows AND r.status = 'cancelled' THEN json_build_object('reason', 'wrong feed')
            WHEN n % 5000 = 4999 THEN json_build_object('up_to', n - 100, 'summary', 'Products up to ' || n || ' are compared.')
            WHEN n % 2 = 0 THEN json_build_object('model', 'fast', 'raw', '{}', 'stop_reason', 'tool_use', 'text', 'I read the page of product ' || n || ' and compare its price with ours.',
                 'calls', json_build_array(json_build_object('call_id', r.run_id || '-' || n || '-0', 'provider_id', 't' || n, 'tool', 'fetch_page', 'args', json_build_object('url', 'https://shop.example/p/' || n), 'args_digest', 'sha256:' || repeat('d', 64), 'route', 'send')),
                 'usage', json_build_object('input_tokens', 900, 'output_tokens', 80), 'worker', 'runner-1', 'epoch', 1, 'duration_ms', 700 + n % 900, 'cost_micro_usd', 1800)
            ELSE json_build_object('call_id', r.run_id || '-' || n - 1 || '-0', 'run_id', r.run_id, 'tool', 'fetch_page', 'status', 'succeeded', 'result', json_build_object('price', '24.90', 'currency', 'USD', 'title', 'product ' || n), 'epoch', 1, 'worker', 'tools-1') END
  FROM bigruns r CROSS JOIN LATERAL generate_series(1, r.rows) n;
--
INSERT INTO runner.pending (run_id, namespace, item, kind, detail, since, next_nudge)
SELECT run_id, 'default', CASE WHEN status = 'running' THEN 'model' ELSE 'call/' || run_id || '-' || rows - rows % 2 || '-0' END, CASE WHEN status = 'running' THEN 'model' ELSE 'tool' END,
       CASE WHEN status = 'running' THEN '' ELSE 'fetch_page' END, at, clock_timestamp() + interval '30 days'
  FROM bigruns WHERE status IN ('running', 'waiting', 'cancelling') AND kind = 'agent';
--
INSERT INTO runner.pending (run_id, namespace, item, kind, detail, since, next_nudge)
SELECT f.run_id, 'default', 'check/' || c.place, 'child', c.run_id, f.at, clock_timestamp() + interval '30 days'
  FROM bigruns f JOIN bigruns c ON c.root = f.i WHERE f.status IN ('running', 'waiting', 'cancelling');
--
-- One call in five changed something.
INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, effect_id, acting, status, result, created_at, updated_at, epoch)
SELECT r.run_id || '-' || n || '-0', r.run_id, 'default', 'set_price', 'sha256:' || repeat('b', 64), 'default', json_build_object('product', n, 'price', '24.90'), 'sha256:' || repeat('d', 64), 'k', 'price/' || r.i || '/' || n,
       'e-' || r.i || '-' || n, true, CASE WHEN r.i % 97 = 0 AND n % 40 = 0 THEN 'unknown' ELSE 'succeeded' END, '{"change":"chg_118"}', r.at + interval '1 s' * least(n, 86000), r.at + interval '1 s' * least(n, 86000), 1
  FROM bigruns r CROSS JOIN LATERAL generate_series(2, r.rows, 10) n;
--
INSERT INTO tools.effects (effect_id, namespace, tool, key, state, epoch, call_id, run_id, args, args_digest, result, attempts, in_doubt, created_at, updated_at, acted_at)
SELECT effect_id, namespace, tool, key, CASE WHEN status = 'unknown' THEN 'unknown' WHEN length(key) % 11 = 0 THEN 'failed' ELSE 'succeeded' END, 1, call_id, run_id, args, args_digest, result, 1, CASE WHEN status = 'unknown' THEN 'ask' END, created_at, updated_at, updated_at
  FROM tools.calls WHERE effect_id LIKE 'e-%';
--
INSERT INTO tools.receipts (effect_id, attempt_id, epoch, worker, late, body, at)
SELECT effect_id, 'a', 1, 'tools-1', false, '{"ok":true}', updated_at FROM tools.effects WHERE effect_id LIKE 'e-%0-%';
--
INSERT INTO tools.artifacts (artifact_id, namespace, run_id, call_id, tool, name, content_type, bytes, uri, title, created_at)
SELECT 'big-' || i, 'default', run_id, run_id || '-2-0', 'fetch_page', 'page-' || i || '.html', 'text/html', 12000, 'https://shop.example/' || i, 'a page', at FROM bigruns WHERE i % 5 = 0;
--
-- One run in ten asked a person; what waits is of the newest.
INSERT INTO approvals.requests (approval_id, namespace, run_id, kind, call_id, agent, tool, tool_digest, args, digest, summary, labels, ask_cause, asked_at, created_at, expires_at, valid_for, state, decided_by, decided_at, door, flow, similarity, requester)
SELECT r.run_id || '-2-0-a2', 'default', r.run_id, 'action', r.run_id || '-2-0', r.name, 'set_price', 'sha256:' || repeat('b', 64), json_build_object('product', 'p' || r.i % 90, 'price', '24.90'), 'sha256:' || repeat('e', 64), 'Change the price of p' || r.i % 90,
       '{}', 'c', r.at, r.at, greatest(r.at, clock_timestamp()) + interval '9 h', interval '1 h', CASE WHEN r.status = 'waiting' THEN 'pending' WHEN r.i % 3 = 0 THEN 'rejected' ELSE 'approved' END,
       CASE WHEN r.status = 'waiting' THEN '' ELSE 'maria' END, CASE WHEN r.status <> 'waiting' THEN r.at + interval '5 min' END, CASE WHEN r.status = 'waiting' THEN '' ELSE 'api' END, CASE WHEN r.root IS NULL THEN '' ELSE 'nightly-competitors' END, 'sim-' || r.i % 90, 'maria'
  FROM bigruns r WHERE r.kind = 'agent' AND r.i % 10 = 3;
--
INSERT INTO approvals.decisions (approval_id, namespace, at, principal, door, decision, comment, outcome)
SELECT approval_id, namespace, decided_at, decided_by, 'api', state, 'fits', 'decided' FROM approvals.requests WHERE state IN ('approved', 'rejected');
--
INSERT INTO trigger.deliveries (delivery_id, namespace, source_kind, source_name, dedupe_key, request_digest, run_id, ref_kind, ref_name, ref_digest, input, labels, principal, accepted_at)
SELECT run_id::uuid, 'default', source, source_name, 'k-' || i, 'd', run_id, kind, name, 'sha256:' || repeat('a', 64), '{}', '{}', source_name, at FROM bigruns WHERE root IS NULL;
--
INSERT INTO trigger.announcements (run_id, announced_at, landed_at, next_announce_at) SELECT run_id, at, at, 'infinity' FROM bigruns WHERE root IS NULL;
--
INSERT INTO trigger.attempts (attempt_id, namespace, webhook, digest, outcome, reason, status, received_at, took_us, remote, content_type, headers, query, body_bytes, body_digest, body, event_id, dedupe_key, run_id, delivery_id)
SELECT run_id::uuid, 'default', source_name, 'd', CASE WHEN i % 20 = 0 THEN 'rejected' WHEN i % 7 = 0 THEN 'duplicate' ELSE 'accepted' END, CASE WHEN i % 20 = 0 THEN 'signature' ELSE '' END, CASE WHEN i % 20 = 0 THEN 401 ELSE 202 END,
       at, 1200, '10.0.0.9', 'application/json', '{"user-agent":["hooks"]}', '{}', 300, 'd', '{"id":1}', 'evt_' || i, 'k-' || i, CASE WHEN i % 20 <> 0 THEN run_id END, CASE WHEN i % 20 <> 0 THEN run_id::uuid END
  FROM bigruns WHERE source = 'webhook' AND root IS NULL;
--
INSERT INTO trigger.schedules (namespace, name, digest, paused, next_at, next_nominal, next_fold, fired)
SELECT 'default', 'schedule-' || n, 'd', n % 7 = 0, CASE WHEN n % 7 <> 0 THEN clock_timestamp() + interval '30 days' END, CASE WHEN n % 7 <> 0 THEN '2030-01-01T00:00' END, 0, 100 FROM generate_series(1, 50) n;
--
INSERT INTO trigger.fires (namespace, schedule, nominal, fold, due_at, fired_at, digest, run_id, delivery_id, state)
SELECT 'default', 'schedule-' || 1 + i % 50, to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 0, at, at, 'd', run_id, run_id::uuid, 'started' FROM bigruns WHERE source = 'schedule' AND root IS NULL ON CONFLICT DO NOTHING;
--
UPDATE trigger.fires SET ended_at = fired_at WHERE ended_at IS NULL AND run_id NOT IN (SELECT run_id FROM bigruns WHERE status IN ('running', 'waiting'));
--
INSERT INTO approvals.notices (notice_id, namespace, channel, reason, run_id, body, state, attempts, created_at, next_at, delivered_at)
SELECT 'big-' || i, 'default', 'ops', 'failed', run_id, '{}', 'delivered', 1, at, NULL, at FROM bigruns WHERE i % 25 = 0;
--
INSERT INTO console.commands (id, namespace, run_id, kind, body, principal, created_at, announced_at, landed_at)
SELECT 'big-' || i, 'default', run_id, 'cancel', '{}', 'maria', at, at, at FROM bigruns WHERE status = 'cancelled';
--
INSERT INTO tools.stops (stop_id, namespace, scope, name, principal, note, since, ended_at, ended_by)
SELECT 'big-stop-' || n, 'default', 'tool', 'set_price', 'maria', 'wrong prices', clock_timestamp() - n * interval '1 day', clock_timestamp() - n * interval '1 day' + interval '1 h', 'maria' FROM generate_series(1, 100) n;
--
-- Every run has called a model in one hour, every third one another one too.
INSERT INTO runner.spend (namespace, hour, run_id, root_run_id, agent, model, calls, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_micro_usd, cost_estimated_micro_usd, flow, trigger, labels)
SELECT 'default', date_trunc('hour', r.at, 'UTC'), r.run_id, coalesce(p.run_id, r.run_id), r.name, m, r.rows / 2, r.rows * 450, r.rows * 100, r.rows, r.rows * 40, (r.rows::bigint * (900 + r.dice) * r.dice) / 50, 0,
       CASE WHEN r.root IS NULL THEN '' ELSE 'nightly-competitors' END, coalesce(p.source || ' ' || p.source_name, r.source || ' ' || r.source_name), jsonb_build_object('customer', (r.i % 500)::text, 'shop', 'shop-' || r.i % 40)
  FROM bigruns r LEFT JOIN bigruns p ON p.i = r.root CROSS JOIN unnest(ARRAY['fast', 'deep']) m WHERE r.kind = 'agent' AND (m = 'fast' OR r.i % 3 = 0);
--
INSERT INTO runner.takeovers (run_id, epoch, namespace, lost_worker, stopped, seen, at)
SELECT run_id, 2, 'default', 'runner-' || i % 3, i % 100 = 0, at, at + interval '2 s' FROM bigruns WHERE i % 50 = 0;
--
INSERT INTO runner.pools (namespace, pool, window_start, unit, ceiling, used)
SELECT 'default', 'daily-' || n, (current_date - d)::text, 'micro_usd', 18000000, 17000000 + n * 100000 FROM generate_series(0, 19) n CROSS JOIN generate_series(0, least(59, {{runs}} / 100)) d;
--
INSERT INTO runner.alerts (alert_id, namespace, pool, window_start, percent, ceiling, used, unit, at, announced_at, next_announce_at)
SELECT md5(n || '/' || d), 'default', 'daily-' || n, (current_date - d)::text, 80, 18000000, 15000000, 'micro_usd', current_date - d, current_date - d, 'infinity' FROM generate_series(0, 19) n CROSS JOIN generate_series(0, least(59, {{runs}} / 100)) d;
--
INSERT INTO runner.rejected (subject, cause, code, detail, body, at)
SELECT 'hf.run.' || run_id || '.start', 'c', 'bad_message', 'it is none', '', at FROM bigruns WHERE i % 40 = 0;
--
UPDATE approvals.notices SET state = 'failed', delivered_at = NULL WHERE length(run_id) > 0 AND right(notice_id, 2) = '25';
--
INSERT INTO console.audit (id, at, namespace, service, actor, role, token_id, session_id, door, action, target, request_id, status, ended_at)
SELECT run_id, at, 'default', 'console', 'maria', 'operator', '', '', 'page', 'POST /ui/runs/{id}/order', run_id, 'r', 303, at FROM bigruns WHERE root IS NULL;
