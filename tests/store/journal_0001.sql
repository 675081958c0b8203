-- A journal at revision 0001: a thread whose run is over, and one whose run waits for a result.
-- Its times are in the year 2099, so that nothing in it is ever too old to be kept.
INSERT INTO calls (id, thread_id, run_id, step, position, name, kind, arguments, model_call_id, status, route, result, attempts, deadline, expires_at, created_at, started_at, completed_at)
VALUES ('call_1a1fdf95b2ed36a0a70da50c242', 'thr_1a1fdf95b259f0f421739209a12', 'run_1a1fdf95b29fa5aa36ff97331e4', 1, 0, '"add"', 'function', '"{\"a\":1,\"b\":2}"', '"call_1d84cc71baaf48419711c7aaf1a8baab_0"', 'done', NULL, '{"status":"success","result":3}', 1, NULL, NULL, 4095262339886891, 4095262339887220, 4095262339889020);
INSERT INTO calls (id, thread_id, run_id, step, position, name, kind, arguments, model_call_id, status, route, result, attempts, deadline, expires_at, created_at, started_at, completed_at)
VALUES ('call_1a1fdf95b3ecc404fcecf1de533', 'thr_1a1fdf95b358db8804e768a0369', 'run_1a1fdf95b36ccf85d15be1d3137', 1, 0, '"ask"', 'external', '"{}"', '"call_268c1b9e045348db8fa08d8350983fb3_0"', 'waiting', NULL, NULL, 0, 4095262369902577, NULL, 4095262339902421, 4095262339902577, NULL);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 1, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'run.queued', '{"runId":"run_1a1fdf95b29fa5aa36ff97331e4","status":"queued"}', 4095262339881200);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 2, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'run.started', '{"runId":"run_1a1fdf95b29fa5aa36ff97331e4","status":"running"}', 4095262339885052);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 3, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'message', '{"message":{"id":"msg_1a1fdf95b29565b5193a0538a2c","role":"user","content":"Add it up","seq":1,"runId":"run_1a1fdf95b29fa5aa36ff97331e4","createdAt":"2026-11-21T11:58:59.881200+00:00"}}', 4095262339885052);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 4, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'step.started', '{"stepNumber":1}', 4095262339885052);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 5, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'message', '{"message":{"id":"msg_1a1fdf95b2e5d58b5d88dff5b58","role":"assistant","content":"","seq":2,"runId":"run_1a1fdf95b29fa5aa36ff97331e4","toolCalls":[{"id":"call_1a1fdf95b2ed36a0a70da50c242","name":"add","arguments":"{\"a\":1,\"b\":2}"}],"createdAt":"2026-11-21T11:58:59.886914+00:00"}}', 4095262339887502);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 6, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'tool.started', '{"streamId":"call_1a1fdf95b2ed36a0a70da50c242","toolCallId":"call_1a1fdf95b2ed36a0a70da50c242","toolName":"add"}', 4095262339887502);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 7, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'tool.done', '{"streamId":"call_1a1fdf95b2ed36a0a70da50c242","toolCallId":"call_1a1fdf95b2ed36a0a70da50c242","toolName":"add","result":3}', 4095262339889118);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 8, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'message', '{"message":{"id":"msg_1a1fdf95b31cd6c634b18d49b9a","role":"tool","content":"3","seq":3,"runId":"run_1a1fdf95b29fa5aa36ff97331e4","toolCallId":"call_1a1fdf95b2ed36a0a70da50c242","toolName":"add","toolStatus":"success","createdAt":"2026-11-21T11:58:59.889074+00:00"}}', 4095262339889118);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 9, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'step.done', '{"stepNumber":1}', 4095262339889118);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 10, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'step.started', '{"stepNumber":2}', 4095262339889118);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 11, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'message', '{"message":{"id":"msg_1a1fdf95b3271a1836fcf6d0d3f","role":"assistant","content":"It''s 3.","seq":4,"runId":"run_1a1fdf95b29fa5aa36ff97331e4","createdAt":"2026-11-21T11:58:59.890326+00:00"}}', 4095262339890494);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 12, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'step.done', '{"stepNumber":2,"usage":{"inputTokens":61,"outputTokens":2,"cacheReadTokens":0,"cacheWriteTokens":0}}', 4095262339890494);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 13, 'run_1a1fdf95b29fa5aa36ff97331e4', 'agt_87eba76e7f3164534045', 'run.completed', '{"runId":"run_1a1fdf95b29fa5aa36ff97331e4","status":"completed","stopReason":"end_turn"}', 4095262339890494);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b358db8804e768a0369', 1, 'run_1a1fdf95b36ccf85d15be1d3137', 'agt_af46aa07307a473302d5', 'run.queued', '{"runId":"run_1a1fdf95b36ccf85d15be1d3137","status":"queued"}', 4095262339894691);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b358db8804e768a0369', 2, 'run_1a1fdf95b36ccf85d15be1d3137', 'agt_af46aa07307a473302d5', 'run.started', '{"runId":"run_1a1fdf95b36ccf85d15be1d3137","status":"running"}', 4095262339900847);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b358db8804e768a0369', 3, 'run_1a1fdf95b36ccf85d15be1d3137', 'agt_af46aa07307a473302d5', 'message', '{"message":{"id":"msg_1a1fdf95b36cf515ad83aa3ec62","role":"user","content":"Ask them","seq":1,"runId":"run_1a1fdf95b36ccf85d15be1d3137","createdAt":"2026-11-21T11:58:59.894691+00:00"}}', 4095262339900847);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b358db8804e768a0369', 4, 'run_1a1fdf95b36ccf85d15be1d3137', 'agt_af46aa07307a473302d5', 'step.started', '{"stepNumber":1}', 4095262339900847);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b358db8804e768a0369', 5, 'run_1a1fdf95b36ccf85d15be1d3137', 'agt_af46aa07307a473302d5', 'message', '{"message":{"id":"msg_1a1fdf95b3e1fa8d30509942acd","role":"assistant","content":"","seq":2,"runId":"run_1a1fdf95b36ccf85d15be1d3137","toolCalls":[{"id":"call_1a1fdf95b3ecc404fcecf1de533","name":"ask","arguments":"{}"}],"createdAt":"2026-11-21T11:58:59.902447+00:00"}}', 4095262339902625);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b358db8804e768a0369', 6, 'run_1a1fdf95b36ccf85d15be1d3137', 'agt_af46aa07307a473302d5', 'tool.started', '{"streamId":"call_1a1fdf95b3ecc404fcecf1de533","toolCallId":"call_1a1fdf95b3ecc404fcecf1de533","toolName":"ask"}', 4095262339902625);
INSERT INTO events (thread_id, n, run_id, agent, type, payload, at)
VALUES ('thr_1a1fdf95b358db8804e768a0369', 7, 'run_1a1fdf95b36ccf85d15be1d3137', 'agt_af46aa07307a473302d5', 'run.waiting', '{"runId":"run_1a1fdf95b36ccf85d15be1d3137","status":"waiting","waiting":{"reason":"calls","callIds":["call_1a1fdf95b3ecc404fcecf1de533"]}}', 4095262340906999);
INSERT INTO inbox (thread_id, event_id, n, type, status, run_id, attempts, content, created_at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 'msg_1a1fdf95b29565b5193a0538a2c', 1, 'message', 'processed', 'run_1a1fdf95b29fa5aa36ff97331e4', 0, '{"messageId":"msg_1a1fdf95b29565b5193a0538a2c","content":"Add it up"}', 4095262339881200);
INSERT INTO inbox (thread_id, event_id, n, type, status, run_id, attempts, content, created_at)
VALUES ('thr_1a1fdf95b358db8804e768a0369', 'msg_1a1fdf95b36cf515ad83aa3ec62', 1, 'message', 'processed', 'run_1a1fdf95b36ccf85d15be1d3137', 0, '{"messageId":"msg_1a1fdf95b36cf515ad83aa3ec62","content":"Ask them"}', 4095262339894691);
INSERT INTO messages (thread_id, seq, id, run_id, step, role, kept, body, created_at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 1, 'msg_1a1fdf95b29565b5193a0538a2c', 'run_1a1fdf95b29fa5aa36ff97331e4', 1, 'user', TRUE, '{"content":"Add it up"}', 4095262339881200);
INSERT INTO messages (thread_id, seq, id, run_id, step, role, kept, body, created_at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 2, 'msg_1a1fdf95b2e5d58b5d88dff5b58', 'run_1a1fdf95b29fa5aa36ff97331e4', 1, 'assistant', TRUE, '{"content":"","calls":[["call_1a1fdf95b2ed36a0a70da50c242","add","{\"a\":1,\"b\":2}","call_1d84cc71baaf48419711c7aaf1a8baab_0"]]}', 4095262339886914);
INSERT INTO messages (thread_id, seq, id, run_id, step, role, kept, body, created_at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 3, 'msg_1a1fdf95b31cd6c634b18d49b9a', 'run_1a1fdf95b29fa5aa36ff97331e4', 1, 'tool', TRUE, '{"content":"3","call":["call_1a1fdf95b2ed36a0a70da50c242","call_1d84cc71baaf48419711c7aaf1a8baab_0","add","success"]}', 4095262339889074);
INSERT INTO messages (thread_id, seq, id, run_id, step, role, kept, body, created_at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 4, 'msg_1a1fdf95b3271a1836fcf6d0d3f', 'run_1a1fdf95b29fa5aa36ff97331e4', 2, 'assistant', TRUE, '{"content":"It''s 3."}', 4095262339890326);
INSERT INTO messages (thread_id, seq, id, run_id, step, role, kept, body, created_at)
VALUES ('thr_1a1fdf95b358db8804e768a0369', 1, 'msg_1a1fdf95b36cf515ad83aa3ec62', 'run_1a1fdf95b36ccf85d15be1d3137', 1, 'user', TRUE, '{"content":"Ask them"}', 4095262339894691);
INSERT INTO messages (thread_id, seq, id, run_id, step, role, kept, body, created_at)
VALUES ('thr_1a1fdf95b358db8804e768a0369', 2, 'msg_1a1fdf95b3e1fa8d30509942acd', 'run_1a1fdf95b36ccf85d15be1d3137', 1, 'assistant', TRUE, '{"content":"","calls":[["call_1a1fdf95b3ecc404fcecf1de533","ask","{}","call_268c1b9e045348db8fa08d8350983fb3_0"]]}', 4095262339902447);
INSERT INTO runs (id, thread_id, agent, status, stop_reason, error, step_count, turn, side, chain_depth, lives, held, usage, cost, output, waiting, cancel_requested_at, created_at, started_at, completed_at)
VALUES ('run_1a1fdf95b29fa5aa36ff97331e4', 'thr_1a1fdf95b259f0f421739209a12', 'agt_87eba76e7f3164534045', 'completed', 'end_turn', NULL, 2, 0, 'side_a', 0, 0, FALSE, '[84,7,0,0]', NULL, '"It''s 3."', NULL, NULL, 4095262339881200, 4095262339884606, 4095262339890453);
INSERT INTO runs (id, thread_id, agent, status, stop_reason, error, step_count, turn, side, chain_depth, lives, held, usage, cost, output, waiting, cancel_requested_at, created_at, started_at, completed_at)
VALUES ('run_1a1fdf95b36ccf85d15be1d3137', 'thr_1a1fdf95b358db8804e768a0369', 'agt_af46aa07307a473302d5', 'waiting', NULL, NULL, 1, 0, 'side_a', 0, 0, FALSE, '[23,2,0,0]', NULL, 'null', '{"reason":"calls","callIds":["call_1a1fdf95b3ecc404fcecf1de533"]}', NULL, 4095262339894691, 4095262339900727, NULL);
INSERT INTO steps (run_id, number, model, usage, cost, finish_reason, created_at)
VALUES ('run_1a1fdf95b29fa5aa36ff97331e4', 1, 'scripted', '[23,5,0,0]', NULL, 'tool_call', 4095262339886939);
INSERT INTO steps (run_id, number, model, usage, cost, finish_reason, created_at)
VALUES ('run_1a1fdf95b29fa5aa36ff97331e4', 2, 'scripted', '[61,2,0,0]', NULL, 'stop', 4095262339890413);
INSERT INTO steps (run_id, number, model, usage, cost, finish_reason, created_at)
VALUES ('run_1a1fdf95b36ccf85d15be1d3137', 1, 'scripted', '[23,2,0,0]', NULL, 'tool_call', 4095262339902475);
INSERT INTO threads (id, agent, user_id, parent_id, name, tags, arguments, run_id, epoch, seq, ev, posted, created_at)
VALUES ('thr_1a1fdf95b259f0f421739209a12', 'agt_87eba76e7f3164534045', NULL, NULL, NULL, '[]', NULL, NULL, 1, 4, 13, 1, 4095262339878000);
INSERT INTO threads (id, agent, user_id, parent_id, name, tags, arguments, run_id, epoch, seq, ev, posted, created_at)
VALUES ('thr_1a1fdf95b358db8804e768a0369', 'agt_af46aa07307a473302d5', NULL, NULL, NULL, '[]', NULL, 'run_1a1fdf95b36ccf85d15be1d3137', 1, 2, 7, 1, 4095262339893900);
INSERT INTO wakes (thread_id, due, gen)
VALUES ('thr_1a1fdf95b358db8804e768a0369', 4095262369902636, 4095262339894691);
