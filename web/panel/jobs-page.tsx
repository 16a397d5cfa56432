import type { JobPage, JobView } from "../../runtime/protocol/ports/panel.ts";
import { JOB_STATES, type JobState } from "../../runtime/protocol/states.ts";
import { type JobParameters, writeCursor } from "../listing.ts";
import { tookText } from "./format.ts";
import { Copied, Counted, Instant, State, stateTone } from "./marks.tsx";

export function JobsPage({ page, query }: { readonly page: JobPage; readonly query: JobParameters }) {
  return (
    <>
      <div class="title">
        <h1>Jobs</h1>
        <span class="muted">newest first</span>
      </div>
      <Filters query={query} />
      <section class="panel" aria-label="Jobs">
        {page.items.length === 0 ? <NoJobs page={page} query={query} /> : <JobTable page={page} />}
      </section>
      <nav class="pager" aria-label="Pages">
        {query.cursor === undefined ? null : (
          <a class="button" href={address({ ...query, cursor: undefined })}>
            Newest
          </a>
        )}
        {page.next === null ? null : (
          <a class="button" href={address({ ...query, cursor: writeCursor(page.next) ?? undefined })} rel="next">
            Older
          </a>
        )}
      </nav>
    </>
  );
}

type Parameters = { readonly [Name in keyof JobParameters]: string | undefined };

function address(parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) query.set(name, value);
  return query.size === 0 ? "/jobs" : `/jobs?${query}`;
}

function Filters({ query }: { readonly query: JobParameters }) {
  const tab = (state: JobState | undefined, name: string) => (
    <a href={address({ ...query, cursor: undefined, state })} aria-current={query.state === state ? "true" : undefined}>
      {name}
    </a>
  );
  return (
    <div class="filters">
      <nav class="tabs" aria-label="States">
        {tab(undefined, "All")}
        {JOB_STATES.map((state) => tab(state, state))}
      </nav>
      <form method="get" action="/jobs" hx-morph-skip="">
        {query.state === undefined ? null : <input type="hidden" name="state" value={query.state} />}
        {query.schedule === undefined ? null : <input type="hidden" name="schedule" value={query.schedule} />}
        {query.revision === undefined ? null : <input type="hidden" name="revision" value={query.revision} />}
        <input
          name="search"
          value={query.search ?? ""}
          placeholder="Part of a type, or an id"
          aria-label="Part of a type, or an id"
        />
        <input name="type" value={query.type ?? ""} placeholder="Type" aria-label="Type" />
        <input name="queue" value={query.queue ?? ""} placeholder="Queue" aria-label="Queue" />
        <button class="button" type="submit">
          Show
        </button>
      </form>
      {query.schedule === undefined ? null : (
        <a
          class="pill"
          href={address({ ...query, cursor: undefined, schedule: undefined })}
          title="Show jobs of all schedules"
        >
          schedule {query.schedule} ×
        </a>
      )}
      {query.revision === undefined ? null : (
        <a
          class="pill"
          href={address({ ...query, cursor: undefined, revision: undefined })}
          title="Show jobs of all revisions"
        >
          revision {query.revision} ×
        </a>
      )}
    </div>
  );
}

function NoJobs({ page, query }: { readonly page: JobPage; readonly query: JobParameters }) {
  if (page.next !== null) {
    return (
      <p class="empty">
        None among the jobs that this page has looked at. <b>Older</b> looks further back.
      </p>
    );
  }
  const filtered = Object.keys(query).length > 0;
  return filtered ? (
    <p class="empty">
      No job matches. <a href="/jobs">Show all jobs</a>.
    </p>
  ) : (
    <p class="empty">
      No job yet. Create one with <code>npx turno enqueue TYPE --payload '{"{}"}'</code>, or let a{" "}
      <a href="/schedules">schedule</a> do it.
    </p>
  );
}

function JobTable({ page }: { readonly page: JobPage }) {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th>Job</th>
            <th>State</th>
            <th class="wide">Queue</th>
            <th class="wide right">Attempt</th>
            <th class="wide">Worker</th>
            <th>Created</th>
            <th class="right">Took</th>
          </tr>
        </thead>
        <tbody>
          {page.items.map((job) => (
            <JobRow job={job} now={page.now} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function JobRow({ job, now }: { readonly job: JobView; readonly now: Date }) {
  return (
    <tr id={`job-${job.id}`}>
      <td>
        <a class="clip" href={`/jobs/${job.id}`} title={job.type}>
          {job.type}
        </a>
        <Copied text={job.id}>
          {job.id.slice(0, 8)}…{job.id.slice(-4)}
        </Copied>
      </td>
      <td>
        <State tone={stateTone(job.state)}>{job.state}</State>
        <br />
        <JobNote job={job} now={now} />
      </td>
      <td class="wide">
        <span class="clip" title={job.queue}>
          {job.queue}
        </span>
      </td>
      <td class="wide right">
        {job.attempt}
        {job.maxAttempts === null ? null : <span class="muted"> / {job.maxAttempts}</span>}
      </td>
      <td class="wide mono">
        <span class="clip" title={job.worker ?? undefined}>
          {job.worker ?? "–"}
        </span>
      </td>
      <td>
        <Instant at={job.createdAt} shape="day" />
        {job.schedule === null ? null : (
          <>
            <br />
            <span class="muted clip" title={`by schedule ${job.schedule}`}>
              {job.schedule}
            </span>
          </>
        )}
      </td>
      <td class="right">
        <Took job={job} now={now} />
      </td>
    </tr>
  );
}

/** What the state alone does not say. */
function JobNote({ job, now }: { readonly job: JobView; readonly now: Date }) {
  if (job.hold !== null) return <span class="muted">held: {job.hold}</span>;
  if (job.state === "Scheduled") {
    return (
      <span class="muted">
        <Counted at={job.runAt} now={now} as="until" />
      </span>
    );
  }
  if (job.state === "Processing" && job.cancelRequested) return <span class="muted">cancelling</span>;
  if (job.state === "Processing" && job.progress > 0) return <span class="muted">{Math.round(job.progress)} %</span>;
  if (job.error !== null && job.state !== "Succeeded") {
    return (
      <span class="muted clip" title={job.error}>
        {job.error}
      </span>
    );
  }
  return null;
}

function Took({ job, now }: { readonly job: JobView; readonly now: Date }) {
  if (job.startedAt === null) return <span class="muted">–</span>;
  if (job.state === "Processing") return <Counted at={job.startedAt} now={now} as="since" />;
  if (job.finishedAt === null) return <span class="muted">–</span>;
  return <>{tookText(Math.max(0, job.finishedAt.getTime() - job.startedAt.getTime()))}</>;
}
