#!/usr/bin/env node
/** The program `troupe`. */
import { runCommandLine } from './command-line.ts';
import { processSurroundings } from './surroundings.ts';

// A reader that has seen enough (`troupe tail ... | head`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit();
  throw error;
});
// Set, not exited with: what is written to a pipe must leave first.
process.exitCode = await runCommandLine(process.argv.slice(2), processSurroundings());
