#!/usr/bin/env node
/** The program `troupe`. */
import { runCommandLine } from './command-line.ts';
import { processSurroundings } from './surroundings.ts';

// A reader that closes the pipe early (`troupe tail ... | head`) is not a failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit();
  throw error;
});
// The exit code is set instead of exiting: output to a pipe must be flushed first.
process.exitCode = await runCommandLine(process.argv.slice(2), processSurroundings());
