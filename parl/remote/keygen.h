// Makes the secrets that guard connections beyond this machine: a token, or a small certificate authority with
// certificates for a learner and its workers. Files are readable by their owner alone, and never overwritten.
// Throws parl::Error that names the file. Thread rule: any thread.
#pragma once

#include <string>
#include <vector>

namespace parl {

// 256 random bits as text.
void make_token(const std::string& file);

// In `folder`: ca/ (keep it where nobody else gets at it), and learner/ and worker/, each with ca.pem, cert.pem and
// key.pem, to be copied to where they are used. `hosts`: names and numbers under which workers dial the learner.
void make_certificates(const std::string& folder, const std::vector<std::string>& hosts);

}  // namespace parl
