import type { Client } from "pg";

export interface JobRow {
  readonly id: string;
  readonly tag: string | null;
  readonly type: string;
  readonly state: string;
  readonly hold: string | null;
  readonly token: string | null;
  /** The token that the handler returned with its result. */
  readonly result_fence: string | null;
  readonly error: string | null;
  readonly schedule: string | null;
  /** Milliseconds since the epoch; the instant that a schedule made it for. */
  readonly fire_at: number | null;
}

export interface ExecutionRow {
  readonly job: string;
  readonly execution: number;
  readonly generation: number;
  readonly token: string;
  readonly outcome: string;
}

export interface FireRow {
  readonly schedule: string;
  readonly fire_at: number;
  readonly outcome: string;
  readonly job: string | null;
  /** Instants before it without a row of their own. */
  readonly older_skips: number;
}

export interface OfferRow {
  readonly job: string;
  readonly fence: string;
  readonly accepted: boolean;
}

/** What the product's database holds after the run, by statements of the oracle's own. */
export interface ProductFacts {
  readonly jobs: readonly JobRow[];
  readonly executions: readonly ExecutionRow[];
  readonly fires: readonly FireRow[];
}

/** What the effect store holds; offers in the order in which they were decided. */
export interface SinkFacts {
  readonly offers: readonly OfferRow[];
  readonly fenced: readonly { readonly job: string; readonly fence: string }[];
}

const JOBS = `
select j.id::text, coalesce(j.payload, p.payload)->>'tag' as tag, j.type, j.state, j.hold, j.dispatch_id::text as token,
  j.result->>'fence' as result_fence, j.error, j.schedule, (extract(epoch from j.fire_at) * 1000)::float8 as fire_at
from turno.jobs j
left join turno.job_payloads p on p.job_id = j.id`;
const EXECUTIONS = `
select job_id::text as job, execution, generation, dispatch_id::text as token, outcome from turno.job_executions`;
const FIRES = `
select schedule, (extract(epoch from fire_at) * 1000)::float8 as fire_at, outcome, job_id::text as job, older_skips::int
from turno.schedule_fires
order by schedule, fire_at`;
const OPEN = "select count(*)::int as open from turno.jobs where not final";

export async function readProductFacts(client: Client): Promise<ProductFacts> {
  const jobs = await client.query<JobRow>(JOBS);
  const executions = await client.query<ExecutionRow>(EXECUTIONS);
  const fires = await client.query<FireRow>(FIRES);
  return { jobs: jobs.rows, executions: executions.rows, fires: fires.rows };
}

export async function readSinkFacts(client: Client): Promise<SinkFacts> {
  const offers = await client.query<OfferRow>("select job, fence::text, accepted from sink.offers order by seq");
  const fenced = await client.query<{ job: string; fence: string }>("select job, fence::text from sink.fenced");
  return { offers: offers.rows, fenced: fenced.rows };
}

/** Jobs that have not ended. */
export async function countOpenJobs(client: Client): Promise<number> {
  const { rows } = await client.query<{ open: number }>(OPEN);
  return rows[0]?.open ?? 0;
}
