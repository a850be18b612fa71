/** The commands of the program, in the order of its help. */
import type { CommandEntry } from './command.ts';

/**
 * See the head of the file. A command's module is loaded when the command is called, because most modules load the
 * whole runtime.
 */
export const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'run',
    summary: 'Review a directory: one sub-agent for each source file',
    load: async () => (await import('./run/command.ts')).runCommand,
  },
  {
    name: 'inspect',
    summary: 'Show the tree of sessions, or one of them and why it rests',
    load: async () => (await import('./sessions/inspect-command.ts')).inspectCommand,
  },
  {
    name: 'ls',
    summary: 'List sessions, the last changed one first',
    load: async () => (await import('./sessions/list-command.ts')).listCommand,
  },
  {
    name: 'search',
    summary: 'Find messages of all sessions by their words',
    load: async () => (await import('./sessions/search-command.ts')).searchCommand,
  },
  {
    name: 'tail',
    summary: 'Print the durable events of a session',
    load: async () => (await import('./sessions/tail-command.ts')).tailCommand,
  },
  {
    name: 'send',
    summary: 'Send a message to a session and print its answer',
    load: async () => (await import('./sessions/send-command.ts')).sendCommand,
  },
  {
    name: 'waiting',
    summary: 'List the tool calls that wait for a person',
    load: async () => (await import('./waiting/list-command.ts')).waitingCommand,
  },
  {
    name: 'approve',
    summary: 'Allow or deny a tool call that waits for a person',
    load: async () => (await import('./waiting/approve-command.ts')).approveCommand,
  },
  {
    name: 'answer',
    summary: 'Answer a question that waits for a person, or decline to',
    load: async () => (await import('./waiting/answer-command.ts')).answerCommand,
  },
  {
    name: 'dead-letters',
    summary: 'List, show, resend or drop messages that were set aside',
    load: async () => (await import('./dead-letters/command.ts')).deadLettersCommand,
  },
  {
    name: 'audit',
    summary: 'List who decided, deleted and changed what',
    load: async () => (await import('./audit/command.ts')).auditCommand,
  },
  {
    name: 'interrupt',
    summary: 'Cancel what a session is doing',
    load: async () => (await import('./sessions/control-commands.ts')).interruptCommand,
  },
  {
    name: 'pause',
    summary: 'Start no further work of a session until it is resumed',
    load: async () => (await import('./sessions/control-commands.ts')).pauseCommand,
  },
  {
    name: 'resume',
    summary: 'End the pause of a session, or its block',
    load: async () => (await import('./sessions/control-commands.ts')).resumeCommand,
  },
  {
    name: 'delete',
    summary: 'Delete a session and its descendants',
    load: async () => (await import('./sessions/control-commands.ts')).deleteCommand,
  },
  {
    name: 'fork',
    summary: 'Make a new session that continues from another one',
    load: async () => (await import('./sessions/fork-command.ts')).forkCommand,
  },
  {
    name: 'top',
    summary: 'Show the busiest sessions, live',
    load: async () => (await import('./top/command.ts')).topCommand,
  },
  {
    name: 'export',
    summary: 'Write the messages or the history of a session as JSON lines',
    load: async () => (await import('./sessions/export-command.ts')).exportCommand,
  },
  {
    name: 'import',
    summary: 'Read the history of a session from JSON lines',
    load: async () => (await import('./sessions/import-command.ts')).importCommand,
  },
  {
    name: 'serve',
    summary: 'Serve a data directory over HTTP',
    load: async () => (await import('./serve-command.ts')).serveCommand,
  },
  {
    name: 'backup',
    summary: 'Back up a data directory, also while a server has it open',
    load: async () => (await import('./backup/backup-command.ts')).backupCommand,
  },
  {
    name: 'restore',
    summary: 'Make a data directory of a backup',
    load: async () => (await import('./backup/restore-command.ts')).restoreCommand,
  },
  {
    name: 'compact',
    summary: 'Make the files of a closed data directory small',
    load: async () => (await import('./backup/compact-command.ts')).compactCommand,
  },
  {
    name: 'doctor',
    summary: 'Check a data directory, measure it, or save its readable part',
    load: async () => (await import('./doctor/command.ts')).doctorCommand,
  },
  {
    name: 'cluster',
    summary: 'Make a cluster, or show the owners and the log of its shards',
    load: async () => (await import('./cluster/command.ts')).clusterCommand,
  },
  {
    name: 'bench',
    summary: 'Measure this machine and disk, with a model that answers at once',
    load: async () => (await import('./bench/command.ts')).benchCommand,
  },
  {
    name: 'sim',
    summary: 'Simulate the runtime with faults, and check its guarantees',
    load: async () => (await import('./sim-command.ts')).simCommand,
  },
  {
    name: 'completion',
    summary: 'Print the completion script of a shell: bash, zsh or fish',
    load: async () => (await import('./completion/command.ts')).completionCommand(COMMANDS),
  },
];
