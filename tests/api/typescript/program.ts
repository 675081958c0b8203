// A small program of somebody else, over the client that the OpenAPI document gives: it must type-check, and the
// lines after @ts-expect-error must not.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Thread = components["schemas"]["ThreadShape"];
type NewMessage = components["schemas"]["NewMessage"];
type Missing = components["schemas"]["ThreadRefused"];

const client = createClient<paths>({ baseUrl: "http://127.0.0.1:8000", headers: { "x-secret-key": "k" } });

export async function configure(): Promise<string> {
  const { data, error } = await client.POST("/api/agents", {
    body: { name: "support", description: "Answers.", config: { agent: { system: "Be brief." }, tools: [] } },
  });
  if (error) throw new Error(error.error);
  return data.agentId;
}

export async function begin(agentId: string): Promise<Thread> {
  const { data, error } = await client.POST("/api/threads", {
    body: { agentId, tags: ["first"], arguments: { depth: 1 }, env: { REGION: { value: "eu", type: "text" } } },
  });
  if (error) {
    const refused: Missing | { error: string } = error;
    throw new Error(refused.error);
  }
  return data.thread;
}

export async function say(threadId: string, message: NewMessage): Promise<string> {
  const { data, error } = await client.POST("/api/threads/{thread_id}/messages", {
    params: { path: { thread_id: threadId } },
    body: { ...message, attachments: [{ name: "a.txt", mimeType: "text/plain", data: "YQ==" }] },
  });
  if (error) throw new Error(error.error);
  return data.runId;
}

export async function answerAll(runId: string): Promise<number> {
  const { data, error } = await client.GET("/api/calls", { params: { query: { runId, limit: 10 } } });
  if (error) throw new Error(error.error);
  for (const call of data.calls) {
    await client.POST("/api/runs/{run_id}/tool-results", {
      params: { path: { run_id: runId } },
      body: { callId: call.callId, result: { answered: [call.toolName, null, 1] } },
    });
  }
  return data.calls.length;
}

export async function talk(spaceId: string): Promise<number | undefined> {
  const space = await client.POST("/api/spaces", { body: { id: spaceId, name: "Trip", kind: "public" } });
  if (space.error) throw new Error(space.error.error);
  const spoken = await client.POST("/api/spaces/{space_id}/messages", {
    params: { path: { space_id: spaceId } },
    body: { content: "Hello" },
  });
  const run = await client.GET("/api/runs/{run_id}", { params: { path: { run_id: spoken.data?.runs[0]?.runId ?? "" } } });
  const status: string | undefined = run.data?.run.status;
  return status === "completed" ? spoken.data?.message.seq : undefined;
}

export async function mistakes(): Promise<void> {
  // @ts-expect-error the agent is named by text
  await client.POST("/api/threads", { body: { agentId: 1 } });
  // @ts-expect-error a message has a content
  await client.POST("/api/threads/{thread_id}/messages", { params: { path: { thread_id: "t" } }, body: {} });
  await client.POST("/api/threads/{thread_id}/messages", {
    params: { path: { thread_id: "t" } },
    // @ts-expect-error a file has a name, a type and data
    body: { content: "", attachments: [{ name: "a" }] },
  });
  // @ts-expect-error there is no such route
  await client.GET("/api/nothing");
}
